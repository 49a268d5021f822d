//! A worker process that runs like a user's program: runtime, logs and settings are those of the bundled worker. It
//! reports to its parent with lines on standard output:
//!
//! | line | when |
//! |---|---|
//! | `connected` | the database answers; the worker waits for `start` on standard input |
//! | `completed N` | it has completed N jobs so far; at most every 5 ms |
//! | `started ID NANOSECONDS` | the handler of a `probe` began, at this time since 1970 |
//! | `ran ID` | the handler of a `noop_told` began |
//! | `claimed MICROSECONDS` | the duration of a claim (with `--time-claims`) |
//!
//! On `stop` on standard input the worker drains. When standard input closes, the parent is gone and the process ends.

mod claim_times;

use std::io::BufRead as _;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::{Args, Parser};
use diesel_jobs::worker::{Registry, WorkerHandle};
use diesel_jobs::{Worker, WorkerBuilder};
use tokio::sync::oneshot;

use self::claim_times::ClaimTimes;
use crate::kinds;
use crate::observed;
use crate::say::say;

/// The first argument that makes this program a worker.
pub(crate) const COMMAND: &str = "worker-process";

/// How often the number of completed jobs is read.
const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// After this many reads without a change, it is read less often.
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
#[derive(Clone, Debug, Default, PartialEq, Args)]
pub(crate) struct Role {
    /// Serve the queue of slow jobs instead of the default one
    #[arg(long)]
    pub(crate) slow: bool,
    /// Jobs at once, instead of the worker's default
    #[arg(long)]
    pub(crate) slots: Option<usize>,
    /// Seconds between two polls, instead of the worker's default
    #[arg(long)]
    pub(crate) poll_interval: Option<u64>,
    /// Tell how long each claim took
    #[arg(long)]
    pub(crate) time_claims: bool,
    /// Record metrics, and render them each second
    #[arg(long)]
    pub(crate) observed: bool,
    /// Register the kinds with rules, too. A worker that has such kinds looks for held jobs more often
    #[arg(long)]
    pub(crate) rules: bool,
}

impl Role {
    /// Returns the arguments of the command.
    pub(crate) fn arguments(&self) -> Vec<String> {
        let mut arguments = vec![COMMAND.to_owned()];
        arguments.extend(self.slow.then(|| "--slow".to_owned()));
        arguments.extend(self.slots.map(|slots| format!("--slots={slots}")));
        arguments.extend(self.poll_interval.map(|seconds| format!("--poll-interval={seconds}")));
        arguments.extend(self.time_claims.then(|| "--time-claims".to_owned()));
        arguments.extend(self.observed.then(|| "--observed".to_owned()));
        arguments.extend(self.rules.then(|| "--rules".to_owned()));
        arguments
    }

    fn registry(&self, url: &str) -> Registry {
        if self.slow {
            return Registry::new().with::<kinds::Slow>();
        }
        let mut registry = Registry::new()
            .with::<kinds::Noop>()
            .with::<kinds::NoopSync>()
            .with::<kinds::NoopTold>()
            .with::<kinds::NoopForgotten>()
            .with::<kinds::Brief>()
            .with::<kinds::NoopUnique>()
            .with::<kinds::Probe>();
        if self.rules {
            registry = registry
                .with::<kinds::NoopKeyed>()
                .with::<kinds::NoopLimited>()
                .with::<kinds::BriefLimited>()
                .with::<kinds::ProbeLimited>();
        }
        // These jobs need a PostgreSQL connection.
        if url.starts_with("sqlite:") {
            return registry;
        }
        registry.with::<kinds::NoopTransactional>().with::<kinds::WriteOne>().with::<kinds::WriteInBatch>()
    }
}

pub(crate) fn main(args: &WorkerArgs) -> Result<()> {
    diesel_jobs::__private::log_as_worker();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("starting the runtime")?;
    runtime.block_on(run(args))
}

async fn run(args: &WorkerArgs) -> Result<()> {
    let handlers = args.role.slots.unwrap_or(WorkerBuilder::DEFAULT_SLOTS);
    let database = diesel_jobs::Database::open(&args.database_url, handlers).await?;
    database.storage.check_schema().await?;
    let mut builder = Worker::builder(database.storage).registry(args.role.registry(&args.database_url));
    if args.role.time_claims {
        builder = builder.recorder(Arc::new(ClaimTimes));
    }
    if let Some(slots) = args.role.slots {
        builder = builder.slots(slots);
    }
    if let Some(seconds) = args.role.poll_interval {
        builder = builder.poll_interval(Duration::from_secs(seconds));
    }
    let metrics = args.role.observed.then(observed::metrics);
    if let Some(metrics) = &metrics {
        diesel_jobs::metrics::record_enqueues(metrics.clone());
        diesel_jobs::metrics::record_actions(metrics.clone());
        builder = builder.recorder(metrics.clone());
    }
    let worker = builder.build()?;
    if let Some(metrics) = metrics {
        metrics.watch(worker.handle());
    }
    let handle = worker.handle();
    let start = listen(move || handle.shutdown());
    say("connected");
    start.await.context("the parent is gone")?;
    let handle = worker.handle();
    thread::spawn(move || report(&handle));
    worker.run_until(std::future::pending()).await?;
    Ok(())
}

/// Reads commands from the parent. The receiver completes on `start`.
pub(crate) fn listen(stop: impl Fn() + Send + 'static) -> oneshot::Receiver<()> {
    let (start, started) = oneshot::channel();
    let mut start = Some(start);
    thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            match line.as_str() {
                "start" => {
                    // Sending fails only if the worker has failed already.
                    let _ = start.take().map(|start| start.send(()));
                }
                "stop" => stop(),
                _ => {}
            }
        }
        std::process::exit(1);
    });
    started
}

/// Reports the number of completed jobs when it changes. After a while without a change it reads the number less often.
/// The benchmark measures the CPU time of an idle worker, and these reads must not add to it.
fn report(handle: &WorkerHandle) {
    let (mut reported, mut same) = (0, 0);
    loop {
        let completed = handle.stats().completed;
        same = if completed == reported { same + 1 } else { 0 };
        if same == 0 {
            reported = completed;
            say(&format!("completed {reported}"));
        }
        thread::sleep(if same < QUIET { POLL_INTERVAL } else { POLL_INTERVAL * 20 });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_has_the_role_that_its_parent_gives_it() {
        let all = Role {
            slow: true,
            slots: Some(4),
            poll_interval: Some(300),
            time_claims: true,
            observed: true,
            rules: true,
        };
        for role in [Role::default(), all] {
            let arguments = [role.arguments(), vec!["--database-url=x".to_owned()]].concat();
            assert_eq!(WorkerArgs::try_parse_from(arguments).unwrap().role, role);
        }
    }
}
