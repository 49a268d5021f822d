//! The short forms of the torture suite that measure parts of a second, or need all processors. Nothing else may run meanwhile on the
//! machine, so `cargo xtask test` runs this program alone. Most of them run one after the other, and those that measure seconds two at a time.
#![allow(missing_docs, clippy::print_stdout)]

mod suite;

use std::sync::{PoisonError, RwLock};

use suite::{Home, run_on, short};

/// Locked for writing by a run that must be alone on the machine.
static MACHINE: RwLock<()> = RwLock::new(());
static HOMES: [Home; 2] = [Home::new("torture"), Home::new("torture-too")];

/// Runs the suite while no other run is in progress.
fn alone(args: &[&str]) {
    let _alone = MACHINE.write().unwrap_or_else(PoisonError::into_inner);
    run_on(&HOMES, args);
}

/// Runs the suite while at most one other run is in progress.
fn in_pairs(args: &[&str]) {
    let _together = MACHINE.read().unwrap_or_else(PoisonError::into_inner);
    run_on(&HOMES, args);
}

short! {
    alone by alone {
        a_forgotten_snapshot_slows_nothing_down: "pinned-snapshot",
        open_writers_slow_nothing_down: "open-writer",
        jobs_of_unknown_kinds_slow_nothing_down: "unknown-kinds",
        a_thousand_queues_are_served_as_one: "many-queues",
        an_uncommitted_bulk_slows_nothing_down: "uncommitted-bulk",
        a_worker_that_starts_under_an_old_snapshot_works_at_once: "new-worker",
        lost_notifications_cost_at_most_a_poll: "lost-notifications",
        a_pooler_changes_nothing_and_keeps_nothing: "pgbouncer",
        a_claim_waits_for_no_lock: "lock-strength",
        rows_that_cannot_be_moved_stop_nobody: "poisoned-rows",
        no_fault_admits_too_many_or_leaves_a_slot_free: "limits",
        no_fault_admits_more_jobs_than_their_rate_allows: "rates",
    }
    // They measure half seconds and seconds.
    in_pairs by in_pairs {
        no_setting_of_the_database_loses_a_job_or_costs_an_attempt: "settings",
        killed_workers_lose_nothing_and_do_nothing_twice: "kill-storm",
        a_workers_clock_changes_nothing: "clocks",
        a_step_of_the_databases_clock_takes_no_job_from_its_worker: "clock-steps",
        deploys_lose_nothing_and_consume_no_attempt: "deploys",
        an_older_version_touches_nothing_that_it_does_not_know: "mixed-versions",
        a_vanished_host_holds_nothing_for_longer_than_its_lease: "line-never-returns",
    }
    // These mutants are noticed because they are slower than without the fault. So they run alone.
    mutants_noticed_alone_by by alone {
        pinned_snapshot: "pinned-snapshot" "--mutants",
        unknown_kinds: "unknown-kinds" "--mutants",
    }
}
