//! Mutants: workers without one thing that the product does right. If a test does not report its mutant, it would not
//! notice that the product had lost the same thing.
//!
//! A mutant is the same program. A proxy replaces text in its statements, or the server has careless settings, or its
//! URL or environment differs. So the product contains no code that is wrong on purpose.

use std::sync::Arc;

use anyhow::Result;
use torture::proxy::{Proxy, Reworded};

use crate::role::PANICS;

/// The condition on the lease in the statement `complete`, by which all jobs of the test end.
const COMPLETE: &str = "and r.lease = $2 and r.worker = $3";

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

mod flow;

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
    MUTANTS.iter().chain(flow::MUTANTS)
}

const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "no-fence",
        tests: &["zombies"],
        fault: "finishes look at the job and not at the lease",
        reworded: &[(COMPLETE, "and (r.lease = $2 or r.worker = $3 or true)")],
        server: "",
    },
    Mutant {
        name: "commits-anyway",
        tests: &["zombies"],
        fault: "the end of a handler's transaction does not fail when its lease is gone",
        reworded: &[("left join moved on true", "join moved on true")],
        server: "",
    },
    Mutant {
        name: "effects-apart",
        tests: &["kill-storm", "crash-points", "server-errors", "disk-full", "pgbouncer"],
        fault: "effects and finish are not one transaction",
        reworded: &[("BEGIN READ WRITE", "select 1")],
        server: "",
    },
    Mutant {
        name: "forgetful-rescue",
        tests: &["kill-storm"],
        fault: "every fifth rescued job is not put back",
        reworded: &[(
            "from decided where discard_reason is null\n",
            "from decided where discard_reason is null and id % 5 <> 0\n",
        )],
        server: "",
    },
    Mutant {
        name: "late-rescue",
        tests: &["black-hole"],
        fault: "a worker counts as dead after three leases",
        reworded: &[("heartbeat_at < now() - lease for", "heartbeat_at < now() - 3 * lease for")],
        server: "",
    },
    Mutant {
        name: "steps-are-deaths",
        tests: &["clock-steps"],
        fault: "the rescue does not look at the rescuer's own row",
        reworded: &[("exists (select from own where is_known and is_young)", "true")],
        server: "",
    },
    Mutant {
        name: DEAF,
        tests: &["line-never-returns"],
        fault: "nobody probes a silent line",
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
        name: "no-audit",
        tests: &["unknown-commit"],
        fault: "nobody looks for leases that a lost reply left behind",
        reworded: &[(
            "FROM \"jobs\".\"running\" WHERE (\"jobs\".\"running\".\"worker\" = $1)",
            "FROM \"jobs\".\"running\" WHERE (\"jobs\".\"running\".\"worker\" = $1) AND false",
        )],
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
        name: "costly-return",
        tests: &["deploys"],
        fault: "a job that goes back has consumed an attempt",
        reworded: &[("else greatest(attempt - 1, 0) end", "else attempt end")],
        server: "",
    },
    Mutant {
        name: "late-poll",
        tests: &["lost-notifications"],
        fault: "a poll takes due jobs for jobs that are due in a second",
        reworded: &[("- clock_timestamp()", "- clock_timestamp() + interval '1 second'")],
        server: "",
    },
    Mutant {
        name: "blames-everybody",
        tests: &["poison-pill"],
        fault: "whoever was there when a worker died is discarded at last",
        reworded: &[
            ("and r.crashes < $", "and r.crashes < 1000 + $"),
            ("count(*) > 1 as in_company", "false as in_company"),
        ],
        server: "",
    },
    Mutant {
        name: "keeps-bad-rows",
        tests: &["poisoned-rows"],
        fault: "what the database refuses to move stays where it is",
        reworded: &[("select place from culprit where reason is not null", "select place from culprit where false")],
        server: "",
    },
    Mutant {
        name: "hasty-floors",
        tests: &["claim-race"],
        fault: "no claim looks below what was there a moment ago, whose transaction is still under way",
        reworded: &[(
            "r.run_at >= scan.floor",
            "r.run_at >= greatest(scan.floor, now() - interval '300 milliseconds')",
        )],
        server: "",
    },
    Mutant {
        name: "no-rescan",
        tests: &["kill-storm"],
        fault: "no rescan finds what came back below the scan floors",
        reworded: &[("r.run_at < wanted.floor", "r.run_at < '-infinity'")],
        server: "",
    },
    Mutant {
        name: "no-floors",
        tests: &["pinned-snapshot", "unknown-kinds"],
        fault: "every claim begins at the bottom",
        reworded: &[("r.run_at >= scan.floor", "r.run_at >= '-infinity'")],
        server: "",
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
        name: "own-clock",
        tests: &["clocks"],
        fault: "an hour more or less is nothing to a claim",
        reworded: &[("r.run_at <= now()", "r.run_at <= now() + interval '1 hour'")],
        server: "",
    },
    Mutant {
        name: "rescue-by-age",
        tests: &["live-job", "starvation"],
        fault: "jobs are rescued by the age of their lease, and not because their worker is dead",
        reworded: &[(
            "or exists (select from dead))\n          and (r.worker = any(array(select id from dead))",
            "or true)\n          and (r.claimed_at < now() - interval '3 seconds'",
        )],
        server: "",
    },
    Mutant {
        name: "leaves-things",
        tests: &["pgbouncer"],
        fault: "a claim's lock and a claim's setting outlive its transaction",
        reworded: &[
            ("pg_try_advisory_xact_lock(1785684595, $", "pg_try_advisory_lock(1785684595, $"),
            ("set_config('synchronous_commit', 'off', true)", "set_config('synchronous_commit', 'off', false)"),
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
        name: "takes-all-kinds",
        tests: &["mixed-versions"],
        fault: "claims do not ask for the kinds that their program knows",
        reworded: &[("r.kind = any(", "r.kind >= any(")],
        server: "",
    },
    Mutant {
        name: "takes-all-flags",
        tests: &["upgrade"],
        fault: "claims take jobs of a later version, whose columns they do not know",
        reworded: &[("(r.flags & ~31) = 0", "true")],
        server: "",
    },
    Mutant {
        name: "looks-into-arguments",
        tests: &["hostile-payloads"],
        fault: "claims take the arguments for what PostgreSQL can take apart",
        reworded: &[("coalesce(args,", "coalesce(args::jsonb::json,")],
        server: "",
    },
    Mutant {
        name: "weak-lock",
        tests: &["lock-strength"],
        fault: "claims lock with less than they need to delete what they locked",
        reworded: &[("for update skip locked", "for no key update skip locked")],
        server: "",
    },
    Mutant {
        name: "forgets-claims",
        tests: &["backend-killer"],
        fault: "no claim ever waits for the disk",
        reworded: &[(
            "or (select set_config('synchronous_commit', 'off', true))",
            "and false or (select set_config('synchronous_commit', 'off', true))",
        )],
        server: "",
    },
    Mutant {
        name: "waits-for-rows",
        tests: &["locked-row"],
        fault: "finishes wait for whoever has locked a row",
        reworded: &[("r.worker = $3 and r.xmax = 0", "r.worker = $3"), ("offset 0 for update skip locked", "offset 0")],
        server: "",
    },
    Mutant {
        name: "no-identity",
        tests: &["publication"],
        fault: "the table of waiting jobs has no replica identity",
        reworded: &[],
        server: "alter table jobs.ready replica identity default",
    },
    Mutant {
        name: "other-order",
        tests: &["plans"],
        fault: "claims want an order that the index does not have",
        reworded: &[("order by r.run_at, r.id\n", "order by r.id, r.run_at\n")],
        server: "",
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
