//! Makes a worker process wait for the start signal.

use tokio::io::{AsyncBufReadExt as _, BufReader};

use crate::handler;

/// The line that reports that a worker is connected and ready.
pub(crate) const READY: &str = "ready";

/// Delays a worker's first claim until the start signal, so that the start-up of the worker is not measured.
pub(crate) struct Gate(());

impl Gate {
    pub(crate) fn new() -> Self {
        Self(())
    }

    /// Reports that the worker is ready, and waits for the start signal.
    pub(crate) async fn pass(self) {
        handler::say(READY);
        let mut stdin = BufReader::new(tokio::io::stdin());
        // If standard input ends, the parent has ended.
        if !matches!(stdin.read_line(&mut String::new()).await, Ok(1..)) {
            std::process::exit(0);
        }
        // The worker also exits if the parent ends later.
        tokio::spawn(async move {
            let _ = stdin.read_line(&mut String::new()).await;
            std::process::exit(0);
        });
    }
}
