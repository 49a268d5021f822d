//! Mutants of leases: of finishes, releases and rescues.

use super::Mutant;

/// The condition on the lease in the statement `complete`, by which all jobs of the test end.
const COMPLETE: &str = "and r.lease = $2 and r.worker = $3";

pub(super) const MUTANTS: &[Mutant] = &[
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
        name: "no-audit",
        tests: &["unknown-commit"],
        fault: "no worker looks for leases that a lost reply left behind",
        reworded: &[(
            "FROM \"jobs\".\"running\" WHERE (\"jobs\".\"running\".\"worker\" = $1)",
            "FROM \"jobs\".\"running\" WHERE (\"jobs\".\"running\".\"worker\" = $1) AND false",
        )],
        server: "",
    },
    Mutant {
        name: "costly-return",
        tests: &["deploys"],
        fault: "a job that goes back has consumed an attempt",
        reworded: &[("else greatest(attempt - 1, 0) end", "else attempt end")],
        server: "",
    },
    Mutant {
        name: "hard-on-the-stopped",
        tests: &["hurried-deploys"],
        fault: "a worker that is killed while it stops has crashed",
        reworded: &[("draining_at is not null) as drained", "false) as drained")],
        server: "",
    },
    Mutant {
        name: "blames-everybody",
        tests: &["poison-pill"],
        fault: "whoever was there when a worker died is discarded at last",
        reworded: &[
            ("and r.crashes < $", "and r.crashes < 1000 + $"),
            ("count(*) > 1 as with_others", "false as with_others"),
        ],
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
        name: "waits-for-rows",
        tests: &["locked-row"],
        fault: "finishes wait for whoever has locked a row",
        reworded: &[("r.worker = $3 and r.xmax = 0", "r.worker = $3"), ("offset 0 for update skip locked", "offset 0")],
        server: "",
    },
];
