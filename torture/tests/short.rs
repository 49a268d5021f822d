//! The short forms of the torture suite, each a test by its name: a cluster of its own, real workers, real faults. They run
//! one after another, as each measures time. Broken twins run two at a time: what gives them away is what they do.
#![allow(missing_docs, clippy::print_stdout)]

use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{PoisonError, RwLock};

/// Written by whoever must be alone on the machine.
static MACHINE: RwLock<()> = RwLock::new(());

/// Runs one test of the suite by itself.
fn holds(test: &str) {
    let _alone = MACHINE.write().unwrap_or_else(PoisonError::into_inner);
    run("torture", &["--test", test]);
}

/// Runs one test of the suite on its broken twins: it objects to each.
fn notices(test: &str) {
    // A directory is one cluster, and its lock keeps others waiting.
    static TURN: AtomicUsize = AtomicUsize::new(0);
    let twins = ["--twins", "--test", test];
    // This one is given away by how much slower it is than itself.
    if test == "pinned-snapshot" {
        let _alone = MACHINE.write().unwrap_or_else(PoisonError::into_inner);
        return run("torture", &twins);
    }
    let _together = MACHINE.read().unwrap_or_else(PoisonError::into_inner);
    run(["torture", "torture-too"][TURN.fetch_add(1, Ordering::Relaxed) % 2], &twins);
}

fn run(dir: &str, args: &[&str]) {
    let dir = concat!(env!("CARGO_TARGET_TMPDIR"), "/").to_owned() + dir;
    let output = Command::new(env!("CARGO_BIN_EXE_jobs-torture"))
        .args(["--short", "--dir", &dir])
        .args(args)
        .output()
        .unwrap_or_else(|error| panic!("cannot start the suite: {error}"));
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{said}");
    println!("{said}");
}

#[test]
fn whatever_is_written_is_understood_or_refused() {
    holds("fuzz");
}

macro_rules! short {
    ($($claim:ident: $test:literal),+ $(,)?) => {
        $(#[test] fn $claim() { holds($test); })+

        /// What each of them is worth.
        mod broken_twins_of {
            $(#[test] fn $claim() { super::notices($test); })+
        }
    };
}

short! {
    killed_workers_lose_nothing_and_do_nothing_twice: "kill-storm",
    a_worker_that_dies_at_any_step_leaves_nothing_undone_or_done_twice: "crash-points",
    zombies_write_nothing: "zombies",
    a_lost_reply_to_a_commit_loses_nothing_and_repeats_nothing: "unknown-commit",
    a_crashed_database_loses_nothing_and_ends_no_worker: "database-crash",
    a_line_that_swallows_everything_delays_jobs_and_nothing_else: "black-hole",
    a_job_that_kills_its_workers_goes_and_takes_nobody_with_it: "poison-pill",
    many_claimers_share_no_job_and_pass_none_over: "claim-race",
    a_forgotten_snapshot_slows_nothing_down: "pinned-snapshot",
    each_tick_is_one_job_whoever_dies_at_it: "cron",
    a_workers_clock_changes_nothing: "clocks",
    errors_of_the_server_lose_nothing_and_nobody_hammers: "server-errors",
    a_full_disk_loses_nothing_and_ends_no_worker: "disk-full",
    a_worker_without_connections_keeps_its_jobs: "starvation",
    deploys_lose_nothing_and_consume_no_attempt: "deploys",
    lost_notifications_cost_at_most_a_poll: "lost-notifications",
    a_pooler_changes_nothing_and_keeps_nothing: "pgbouncer",
    a_live_job_is_never_rescued: "live-job",
    a_dropped_future_leaves_no_transaction_and_no_slot_behind: "cancelled-futures",
    an_older_version_touches_nothing_that_it_does_not_know: "mixed-versions",
    what_nobody_should_enqueue_is_refused_or_fails_and_holds_nobody_up: "hostile-payloads",
    a_panic_costs_an_attempt_and_nothing_else: "panics",
    a_claim_waits_for_no_lock: "lock-strength",
    no_statistics_spoil_a_plan: "plans",
}
