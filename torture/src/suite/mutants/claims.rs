//! Mutants of claims, scan floors and rescans.

use super::Mutant;

pub(super) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "late-poll",
        tests: &["lost-notifications"],
        fault: "a poll takes due jobs for jobs that are due in a second",
        reworded: &[("- clock_timestamp()", "- clock_timestamp() + interval '1 second'")],
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
        name: "own-clock",
        tests: &["clocks"],
        fault: "an hour more or less is nothing to a claim",
        reworded: &[("r.run_at <= now()", "r.run_at <= now() + interval '1 hour'")],
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
        reworded: &[("(r.flags & ~511) = 0", "true")],
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
        name: "other-order",
        tests: &["plans"],
        fault: "claims want an order that the index does not have",
        reworded: &[("order by r.run_at, r.id\n", "order by r.id, r.run_at\n")],
        server: "",
    },
];
