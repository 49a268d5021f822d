//! Mutants: workers without one thing that the product does right. If a test does not report its mutant, it would not
//! notice that the product had lost the same thing.
//!
//! A mutant is the same program. A proxy replaces text in its statements, or the server has careless settings, or its
//! URL or environment differs. So the product contains no code that is wrong on purpose.

use std::sync::Arc;

use anyhow::Result;
use torture::proxy::{Proxy, Reworded};

use crate::role::PANICS;

/// SQL that replaces a text in a function of the schema.
macro_rules! edited {
    ($function:literal, $from:literal, $to:literal) => {
        concat!(
            "do $do$ declare text text := pg_get_functiondef('",
            $function,
            "'::regprocedure); begin
            if position($from$",
            $from,
            "$from$ in text) = 0 then
                raise exception 'the function has changed, and the mutant would not differ from it';
            end if;
            execute replace(text, $from$",
            $from,
            "$from$, $to$",
            $to,
            "$to$);
        end $do$"
        )
    };
}

mod claims;
mod ends;
mod flow;
mod leases;

/// One mutant.
#[derive(Debug)]
pub(super) struct Mutant {
    pub(super) name: &'static str,
    /// The tests that must report it.
    pub(super) tests: &'static [&'static str],
    /// What is wrong with it.
    pub(super) fault: &'static str,
    /// Texts in the workers' statements, and the texts that replace them on the way to the server.
    reworded: &'static [(&'static str, &'static str)],
    /// The server's settings, or a change of the schema's functions, as SQL.
    pub(super) server: &'static str,
}

/// All mutants.
pub(super) fn mutants() -> impl Iterator<Item = &'static Mutant> {
    [MUTANTS, leases::MUTANTS, claims::MUTANTS, flow::MUTANTS, ends::MUTANTS].into_iter().flatten()
}

const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "effects-apart",
        tests: &["kill-storm", "crash-points", "batches", "server-errors", "disk-full", "failover", "pgbouncer"],
        fault: "effects and finish are not one transaction",
        reworded: &[("BEGIN READ WRITE", "select 1")],
        server: "",
    },
    Mutant {
        name: DEAF,
        tests: &["line-never-returns"],
        fault: "no worker probes a silent line",
        reworded: &[],
        server: "",
    },
    Mutant {
        name: "as-the-database-says",
        tests: &["settings"],
        fault: "the worker's own sessions have the database's defaults",
        reworded: &[("SET TIME ZONE 'UTC'", "set default_transaction_isolation = serializable")],
        server: "",
    },
    Mutant {
        name: "hasty-commit",
        tests: &["database-crash"],
        fault: "commits are acknowledged before they are on the disk",
        reworded: &[],
        server: "alter system set synchronous_commit = off",
    },
    Mutant {
        name: "ticks-for-all",
        tests: &["cron"],
        fault: "whoever sees that a tick is due enqueues it",
        reworded: &[
            (
                "AND (\"jobs\".\"schedule\".\"last_tick\" = $2)",
                "AND (\"jobs\".\"schedule\".\"last_tick\" = $2 or true)",
            ),
            ("FOR NO KEY UPDATE SKIP LOCKED", "FOR NO KEY UPDATE"),
        ],
        server: "",
    },
    Mutant {
        name: "as-it-is",
        tests: &["cancelled-futures"],
        fault: "connections go back to their pool with the transaction that was to be rolled back",
        reworded: &[("ROLLBACK", "select 1")],
        server: "",
    },
    Mutant {
        name: "no-identity",
        tests: &["publication"],
        fault: "the table of waiting jobs has no replica identity",
        reworded: &[],
        server: "alter table jobs.ready replica identity default",
    },
    Mutant { name: DIES_OF_PANICS, tests: &["panics"], fault: "a panic ends its process", reworded: &[], server: "" },
];

/// The fault of this mutant is in its URL.
pub(super) const DEAF: &str = "deaf";
/// The fault of this mutant is in its environment.
const DIES_OF_PANICS: &str = "dies-of-panics";

/// A running mutant: the proxy between its workers and the server.
#[derive(Debug)]
pub(super) struct RunningMutant {
    mutant: &'static Mutant,
    proxy: Proxy,
    reworded: Vec<Arc<Reworded>>,
}

impl RunningMutant {
    pub(super) async fn start(mutant: &'static Mutant, upstream: u16) -> Result<Self> {
        let proxy = Proxy::start(upstream).await?;
        let reworded = mutant.reworded.iter().map(|(from, to)| proxy.reword(from, to)).collect();
        Ok(Self { mutant, proxy, reworded })
    }

    pub(super) fn mutant(&self) -> &'static Mutant {
        self.mutant
    }

    /// The environment variables of its workers.
    pub(super) fn environment(&self) -> &'static [(&'static str, &'static str)] {
        if self.mutant.name == DIES_OF_PANICS { &[(PANICS, "end")] } else { &[] }
    }

    pub(super) fn port(&self) -> u16 {
        self.proxy.port()
    }

    /// Connects to another server from now on.
    pub(super) fn connect_to(&self, upstream: u16) {
        self.proxy.lead_to(upstream);
    }

    /// Whether each text to be replaced has occurred in a statement. If not, the product's statements have changed, and
    /// the mutant does not differ from the product.
    pub(super) fn is_complete(&self) -> bool {
        self.reworded.iter().all(|rule| rule.count() > 0)
    }
}
