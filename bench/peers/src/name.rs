//! The systems that are compared.

use clap::ValueEnum;

/// Every system, with the name it has in tables and results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Name {
    /// Ours; finished jobs stay readable for 24 hours.
    Jobs,
    /// Ours; finished jobs are deleted at once.
    JobsRetainNone,
    /// graphile_worker.
    Graphile,
    /// apalis-postgres.
    Apalis,
    /// awa.
    Awa,
    /// riverqueue, River for Rust.
    River,
}

impl Name {
    /// All of them.
    pub(crate) fn all() -> &'static [Self] {
        Self::value_variants()
    }

    /// Returns the name for people.
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Jobs => "jobs",
            Self::JobsRetainNone => "jobs (retain none)",
            Self::Graphile => "graphile_worker",
            Self::Apalis => "apalis-postgres",
            Self::Awa => "awa",
            Self::River => "riverqueue",
        }
    }

    /// Returns the crate whose version is reported.
    pub(crate) fn package(self) -> &'static str {
        match self {
            Self::Jobs | Self::JobsRetainNone => "diesel-jobs",
            Self::Graphile => "graphile_worker",
            Self::Apalis => "apalis-postgres",
            Self::Awa => "awa",
            Self::River => "riverqueue",
        }
    }
}
