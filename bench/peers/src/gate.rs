//! How a worker process waits for the word to go.

use tokio::io::{AsyncBufReadExt as _, BufReader};

use crate::handler;

/// The line that says that a worker is connected and ready.
pub(crate) const READY: &str = "ready";

/// The gate before a worker's first claim: what happened before is not measured.
pub(crate) struct Gate(());

impl Gate {
    pub(crate) fn new() -> Self {
        Self(())
    }

    /// Says that the worker is ready and waits for the word.
    pub(crate) async fn pass(self) {
        handler::say(READY);
        let mut stdin = BufReader::new(tokio::io::stdin());
        // An end of the input is the parent's end.
        if !matches!(stdin.read_line(&mut String::new()).await, Ok(1..)) {
            std::process::exit(0);
        }
        // The same holds later.
        tokio::spawn(async move {
            let _ = stdin.read_line(&mut String::new()).await;
            std::process::exit(0);
        });
    }
}
