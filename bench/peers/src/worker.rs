//! A worker process: connects, says so, waits for the word to go, and works until it is killed.

use anyhow::Result;
use tokio::io::{AsyncBufReadExt as _, BufReader};

use crate::args::WorkerArgs;
use crate::handler;

/// The line that says that a worker is connected and ready.
pub(crate) const READY: &str = "ready";

/// The gate before a worker's first claim: what happened before is not measured.
pub(crate) struct Gate(());

impl Gate {
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

/// The whole process.
pub(crate) async fn run(args: WorkerArgs) -> Result<()> {
    handler::start(args.mode);
    args.system.system().work(&args.database_url, Gate(())).await
}
