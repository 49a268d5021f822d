//! The command line.

use clap::{Args, Parser, ValueEnum};

/// Measures `diesel-jobs` beside hand-written SQL on the same tables, in turns.
///
/// DATABASE_URL names a PostgreSQL server and a database there to connect to, as a user who may create databases. The
/// program makes databases named jobs_bench_* and drops them. Run it where nothing else runs.
#[derive(Debug, Parser)]
#[command(name = "jobs-bench", max_term_width = 120, version)]
pub(crate) struct Cli {
    /// What to measure
    #[arg(value_enum)]
    pub(crate) measure: Measure,
    #[command(flatten)]
    pub(crate) options: Options,
}

/// What can be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Measure {
    /// Every measure below but homemade, neighbour, operating and flow, in this order
    All,
    /// One job at a time, each in a transaction of its own, from 1, 8 and 16 connections
    Enqueue,
    /// Many jobs in one call
    Bulk,
    /// A job for each row of a query
    Each,
    /// Jobs enqueued before the worker starts: how fast they are claimed, run and finished
    Drain,
    /// How long an idle worker takes to begin a job
    Latency,
    /// The first jobs of a long queue, beside scheduled ones, beside a long history
    Backlog,
    /// The steady state, and claims at 500 jobs/s, while another session holds an old snapshot
    Snapshot,
    /// 1, 4, 16 and 64 worker processes of 4 slots each
    Contention,
    /// Enqueue, claim and finish together, at saturation
    Steady,
    /// Statements and CPU of a worker that has nothing to do. Needs pg_stat_statements
    Idle,
    /// Resident size of a worker process
    Memory,
    /// Enqueue, bulk, drain and latency on SQLite
    Sqlite,
    /// The testing kit's drain
    Kit,
    /// Queues as blog posts teach to write them, beside ours, in 1 to 128 processes of which some are killed. Ours in
    /// 128 need max_connections = 784
    Homemade,
    /// pgbench's transactions while the same server carries jobs
    Neighbour,
    /// The CPU of the sampler, speed with metrics beside without, and pick-up during a bulk retry beside without
    Operating,
    /// Jobs with limits and unique keys beside plain ones
    Flow,
}

/// How to measure.
#[derive(Clone, Debug, Args)]
pub(crate) struct Options {
    /// Print one JSON object per variant, as soon as it is measured, instead of tables
    #[arg(long)]
    pub(crate) json: bool,
    /// Runs of each variant, of ours and of raw in turns; medians are quoted
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) runs: u16,
    /// Jobs per run, where a measure counts jobs [default: the measure's own]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) n: Option<u64>,
    /// Length of a run, where a measure takes time [default: the measure's own]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) seconds: Option<u64>,
    /// Only variants whose name contains this text
    #[arg(long, value_name = "TEXT")]
    pub(crate) only: Option<String>,
    /// Do not measure the raw limit
    #[arg(long)]
    pub(crate) no_raw: bool,
    /// A tenth of the jobs and of the time: to try the program out, not to quote
    #[arg(long)]
    pub(crate) quick: bool,
    /// Record metrics of enqueues, and render them each second
    #[arg(long)]
    pub(crate) observed: bool,
    /// The PostgreSQL server. Raw SQL is sent unencrypted, so if the server offers TLS, add sslmode=disable. Other
    /// users of the machine can read command lines: a URL with a password belongs into the variable
    #[arg(long, value_name = "URL", env = "DATABASE_URL", hide_env_values = true)]
    pub(crate) database_url: Option<String>,
}

impl Options {
    /// Returns the jobs per run: the option, else the measure's own number.
    pub(crate) fn jobs(&self, usual: u64) -> u64 {
        self.n.unwrap_or(if self.quick { usual.div_ceil(10) } else { usual })
    }

    /// Returns the length of a run in seconds: the option, else the measure's own.
    pub(crate) fn time(&self, usual: u64) -> u64 {
        self.seconds.unwrap_or(if self.quick { usual.div_ceil(10) } else { usual })
    }

    /// Whether the options select this variant.
    pub(crate) fn wants(&self, variant: &str) -> bool {
        self.only.as_ref().is_none_or(|text| variant.contains(text.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_quick_run_takes_a_tenth_unless_told_otherwise() {
        let cli = Cli::try_parse_from(["jobs-bench", "drain", "--quick", "--n", "7"]).unwrap();
        assert_eq!((cli.options.jobs(100_000), cli.options.time(60)), (7, 6));
    }
}
