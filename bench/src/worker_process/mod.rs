//! A worker in a process of its own, as a user's binary would run it: the runtime, the logs and the settings are those of
//! the bundled worker. It tells its parent by lines on standard output:
//!
//! | line | when |
//! |---|---|
//! | `connected` | the database answers; the worker waits for `start` on standard input |
//! | `completed N` | it has completed N jobs so far; at most every 5 ms |
//! | `started ID NANOSECONDS` | the handler of a `probe` began, since 1970 |
//! | `claimed MICROSECONDS` | a claim took so long (with `--time-claims`) |
//!
//! `stop` on standard input drains it; a closed standard input means that the parent is gone, and it ends.

mod timed;

use std::io::BufRead as _;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::{Args, Parser};
use diesel_jobs::storage::Storage;
use diesel_jobs::{Registry, Worker, WorkerBuilder, WorkerHandle};
use tokio::sync::oneshot;

use crate::kinds;
use crate::say::say;

/// The word that makes this program a worker.
pub(crate) const COMMAND: &str = "worker-process";

/// How often the number of completed jobs is looked at.
const LOOK: Duration = Duration::from_millis(5);
/// After so many looks that found nothing new.
const QUIET: u32 = 200;

#[derive(Debug, Parser)]
#[command(name = COMMAND)]
pub(crate) struct WorkerArgs {
    /// The database
    #[arg(long, env = "DATABASE_URL", hide_env_values = true)]
    database_url: String,
    #[command(flatten)]
    pub(crate) role: Role,
}

/// What the worker does.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Role {
    /// Serve the queue of slow jobs instead of the default one
    #[arg(long)]
    pub(crate) slow: bool,
    /// Jobs at once, instead of the worker's default
    #[arg(long)]
    pub(crate) slots: Option<usize>,
    /// Tell how long each claim took
    #[arg(long)]
    pub(crate) time_claims: bool,
}

impl Role {
    /// As arguments of a command.
    pub(crate) fn arguments(&self) -> Vec<String> {
        let mut arguments = vec![COMMAND.to_owned()];
        arguments.extend(self.slow.then(|| "--slow".to_owned()));
        arguments.extend(self.slots.map(|slots| format!("--slots={slots}")));
        arguments.extend(self.time_claims.then(|| "--time-claims".to_owned()));
        arguments
    }

    fn registry(&self, url: &str) -> Registry {
        if self.slow {
            return Registry::new().with::<kinds::Slow>();
        }
        let registry = Registry::new()
            .with::<kinds::Noop>()
            .with::<kinds::NoopSync>()
            .with::<kinds::NoopForgotten>()
            .with::<kinds::Probe>();
        // Its connection is PostgreSQL's.
        if url.starts_with("sqlite:") { registry } else { registry.with::<kinds::NoopTransactional>() }
    }
}

pub(crate) fn main(args: &WorkerArgs) -> Result<()> {
    diesel_jobs::__private::log_as_worker();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("starting the runtime")?;
    runtime.block_on(run(args))
}

async fn run(args: &WorkerArgs) -> Result<()> {
    let handlers = args.role.slots.unwrap_or(WorkerBuilder::DEFAULT_CONCURRENCY);
    let database = diesel_jobs::Database::open(&args.database_url, handlers).await?;
    let mut storage: Arc<dyn Storage> = database.storage;
    if args.role.time_claims {
        storage = Arc::new(timed::Timed(storage));
    }
    storage.check_schema().await?;
    let mut builder = Worker::builder(storage).registry(args.role.registry(&args.database_url));
    if let Some(slots) = args.role.slots {
        builder = builder.concurrency(slots);
    }
    let worker = builder.build()?;
    let start = listen(worker.handle());
    say("connected");
    start.await.context("the parent is gone")?;
    let handle = worker.handle();
    thread::spawn(move || tell(&handle));
    worker.run_until(std::future::pending()).await?;
    Ok(())
}

/// Hears the parent; the answer comes when it says `start`.
fn listen(handle: WorkerHandle) -> oneshot::Receiver<()> {
    let (start, started) = oneshot::channel();
    let mut start = Some(start);
    thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            match line.as_str() {
                "start" => {
                    // Nobody waits only if the worker has failed already.
                    let _ = start.take().map(|start| start.send(()));
                }
                "stop" => handle.shutdown(),
                _ => {}
            }
        }
        std::process::exit(1);
    });
    started
}

/// Tells the number of completed jobs while it changes. Where nothing does it looks seldom: an idle worker's processor
/// time is measured, not this.
fn tell(handle: &WorkerHandle) {
    let (mut told, mut same) = (0, 0);
    loop {
        let completed = handle.stats().completed;
        same = if completed == told { same + 1 } else { 0 };
        if same == 0 {
            told = completed;
            say(&format!("completed {told}"));
        }
        thread::sleep(if same < QUIET { LOOK } else { LOOK * 20 });
    }
}
