//! The options of the worker.

use std::time::Duration;

use clap::Args;

use super::duration;
use super::parse::{address, connections, crashes, lifetime, name, positive, slots_total, version};
use super::queues::QueueList;

/// The options of the worker. They take precedence over the environment, and both over the program's set-up function.
#[derive(Clone, Debug, Default, Args)]
pub(super) struct RunArgs {
    /// Serve only these queues, each with this number of slots: mail=10,default=50. A queue without a number has
    /// --slots slots. A queue that is not the default of any job is served, too; the log then shows which jobs are in
    /// it. A `*` stands for any characters: 'tenant-*=2,*=4' serves each queue that fits, also one that appears while
    /// the worker runs, and the most specific name counts. A name between quotation marks is read as it is: '"a,b"=2'
    /// serves the queue a,b [env: JOBS_QUEUES] [default: the default queues of the
    /// program's jobs]
    #[arg(long, value_name = "QUEUES", value_parser = QueueList::parse, help_heading = "Options of run")]
    pub(super) queues: Option<QueueList>,
    /// How many jobs of a queue this worker runs at once (its slots), for each queue that is named without a number. It
    /// counts only the jobs of this worker; `concurrency(..)` on a job is a limit over all workers [env: JOBS_SLOTS]
    /// [default: 16]
    #[arg(long, value_name = "N", value_parser = positive, help_heading = "Options of run")]
    pub(super) slots: Option<usize>,
    /// How many jobs this worker runs at once in all its queues together. Each queue keeps its own slots as a maximum,
    /// and queues with due jobs take turns [env: JOBS_SLOTS_TOTAL] [default: none beyond the queues' own]
    #[arg(long, value_name = "N", value_parser = slots_total, help_heading = "Options of run")]
    pub(super) slots_total: Option<usize>,
    /// An earlier name of --slots
    #[arg(long, value_name = "N", value_parser = renamed, hide = true)]
    pub(super) concurrency: Option<usize>,
    /// Connections for transactional handlers, and for loading the rows that handlers take; if all are in use, handlers
    /// wait [env: JOBS_CONNECTIONS] [default: one per slot, at most 20]
    #[arg(long, value_name = "N", value_parser = connections, help_heading = "Options of run")]
    pub(super) connections: Option<usize>,
    /// The age at which connections to PostgreSQL are closed, at least 1s. Each has its own, between four fifths of
    /// this and all of it. Choose less than the time after which a pooler or a firewall closes connections [env:
    /// JOBS_MAX_LIFETIME] [default: 30m]
    #[arg(long, value_name = "DURATION", value_parser = lifetime, help_heading = "Options of run")]
    pub(super) max_lifetime: Option<Duration>,
    /// The interval of the poll, which finds jobs without a notification, such as 500ms. With more than 10s, an idle
    /// worker on PostgreSQL also sends its heartbeats and all other statements as rarely, for databases that bill their
    /// activity [env: JOBS_POLL_INTERVAL] [default: 3s]
    #[arg(long, value_name = "DURATION", value_parser = duration::parse_positive, help_heading = "Options of run")]
    pub(super) poll_interval: Option<Duration>,
    /// How long running jobs may continue after SIGTERM or SIGINT; a second signal stops at once. Unfinished jobs are
    /// then released, and no attempt is consumed [env: JOBS_GRACE_PERIOD] [default: 8s]
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, help_heading = "Options of run")]
    pub(super) grace_period: Option<Duration>,
    /// How long after its last heartbeat a worker counts as dead, and its jobs are rescued; at least 1s [env:
    /// JOBS_LEASE] [default: 30s]
    #[arg(long, value_name = "DURATION", value_parser = duration::parse_positive, help_heading = "Options of run")]
    pub(super) lease: Option<Duration>,
    /// Time limit of one attempt, if its kind has no `timeout` [env: JOBS_TIMEOUT] [default: unlimited]
    #[arg(long, value_name = "DURATION", value_parser = duration::parse_positive, help_heading = "Options of run")]
    pub(super) timeout: Option<Duration>,
    /// A job is discarded at this many counted crashes; before the last one it runs alone in its process [env:
    /// JOBS_MAX_CRASHES] [default: 3]
    #[arg(long, value_name = "N", value_parser = crashes, help_heading = "Options of run")]
    pub(super) max_crashes: Option<u16>,
    /// How long the history of the work is kept, by which `stats` and charts show rates; at least 1h [env:
    /// JOBS_KEEP_HISTORY] [default: 30d]
    #[arg(long, value_name = "DURATION", value_parser = duration::parse_positive, help_heading = "Options of run")]
    pub(super) keep_history: Option<Duration>,
    /// How long completed jobs are kept, unless their kind says `retain` [env: JOBS_RETAIN_COMPLETED] [default: 24h]
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, help_heading = "Options of run")]
    pub(super) retain_completed: Option<Duration>,
    /// How long cancelled jobs are kept [env: JOBS_RETAIN_CANCELLED] [default: 30d]
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, help_heading = "Options of run")]
    pub(super) retain_cancelled: Option<Duration>,
    /// How long discarded jobs are kept [env: JOBS_RETAIN_DISCARDED] [default: 30d]
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, help_heading = "Options of run")]
    pub(super) retain_discarded: Option<Duration>,
    /// The environment that this worker belongs to, such as production. If `environment set` has named a database, only
    /// workers with the same name serve it, so that other workers do not run the jobs of a copy [env: JOBS_ENVIRONMENT]
    /// [default: none]
    #[arg(long, value_name = "NAME", value_parser = name, help_heading = "Options of run")]
    pub(super) environment: Option<String>,
    /// The version of this program, such as a commit, which `workers` and the dashboard show [env: JOBS_VERSION]
    /// [default: that of the package that calls `worker!`]
    #[arg(long, value_name = "VERSION", value_parser = version, help_heading = "Options of run")]
    pub(super) program_version: Option<String>,
    /// End when no job is due, for cron jobs and other processes that something starts again. Jobs that are scheduled
    /// for later are left, and so are failed jobs until their next attempt. SIGTERM and SIGINT end the run before that,
    /// as always. The exit code is 5 if a job was discarded [env: JOBS_UNTIL_EMPTY] [default: run until SIGTERM or
    /// SIGINT]
    #[arg(long, help_heading = "Options of run")]
    pub(super) until_empty: bool,
    /// Answer HTTP requests for probes and metrics on this address, such as 127.0.0.1:9464: /livez, /readyz, /startupz
    /// and /metrics. It asks for no password, so choose an address that only your monitoring reaches [env: JOBS_LISTEN]
    /// [default: none]
    #[arg(long, value_name = "HOST:PORT", value_parser = address, help_heading = "Options of run")]
    pub(super) listen: Option<String>,
}

/// Limits over all workers have the word.
fn renamed(number: &str) -> Result<usize, String> {
    Err(format!("the number of jobs that a worker runs at once is called --slots; write --slots {number}"))
}

impl RunArgs {
    /// Whether no option was given.
    pub(super) fn is_empty(&self) -> bool {
        let Self {
            queues,
            slots,
            slots_total,
            concurrency: _,
            connections,
            max_lifetime,
            poll_interval,
            grace_period,
            lease,
            timeout,
            max_crashes,
            keep_history,
            retain_completed,
            retain_cancelled,
            retain_discarded,
            environment,
            program_version,
            until_empty,
            listen,
        } = self;
        queues.is_none()
            && slots.is_none()
            && slots_total.is_none()
            && connections.is_none()
            && max_lifetime.is_none()
            && poll_interval.is_none()
            && grace_period.is_none()
            && lease.is_none()
            && timeout.is_none()
            && max_crashes.is_none()
            && keep_history.is_none()
            && retain_completed.is_none()
            && retain_cancelled.is_none()
            && retain_discarded.is_none()
            && environment.is_none()
            && program_version.is_none()
            && !until_empty
            && listen.is_none()
    }
}
