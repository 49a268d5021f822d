//! The short forms of the torture suite. Each is one test with a cluster of its own, real workers and real faults. They
//! run some at a time, because they mostly wait. What fails is a broken rule of safety, order or count: the times are
//! printed, and `cargo xtask torture` judges them on optimised workers. `cargo xtask watch mutants` runs all mutants.
//! Here are those that break such a rule within seconds.
#![allow(missing_docs, clippy::print_stdout)]

use std::process::{Command, Output};
use std::sync::{Mutex, PoisonError};

/// The directory of a cluster. Only one run at a time can use it.
struct Home {
    name: &'static str,
    lock: Mutex<()>,
}

impl Home {
    const fn new(name: &'static str) -> Self {
        Self { name, lock: Mutex::new(()) }
    }
}

static HOMES: [Home; 3] = [Home::new("torture"), Home::new("torture-2"), Home::new("torture-3")];

/// Runs the suite on the first cluster that is free, or on the last one when it becomes free. Panics if something is
/// broken.
fn torture(args: &[&str]) {
    let output = {
        let free = HOMES.iter().find_map(|home| Some((home, home.lock.try_lock().ok()?)));
        let [.., last] = &HOMES;
        let (home, _mine) = free.unwrap_or_else(|| (last, last.lock.lock().unwrap_or_else(PoisonError::into_inner)));
        run(home.name, args)
    };
    // The lock is released, so that a panic does not poison it.
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{said}");
    println!("{said}");
}

fn run(home: &str, args: &[&str]) -> Output {
    let dir = concat!(env!("CARGO_TARGET_TMPDIR"), "/").to_owned() + home;
    Command::new(env!("CARGO_BIN_EXE_jobs-torture"))
        .args(["--short", "--untimed", "--dir", &dir])
        .args(args)
        .output()
        .unwrap_or_else(|error| panic!("cannot start the suite: {error}"))
}

macro_rules! short {
    ($($module:ident { $($claim:ident: $test:literal $($mutant:literal)?,)+ })+) => {
        $(mod $module {
            $(#[test] fn $claim() { super::torture(&["--test", $test $(, "--mutant", $mutant)?]); })+
        })+
    };
}

short! {
    holds {
        errors_of_the_server_lose_nothing_and_nobody_hammers: "server-errors",
        a_worker_that_dies_at_any_step_leaves_nothing_undone_or_done_twice: "crash-points",
        zombies_write_nothing: "zombies",
        no_fault_ends_a_job_that_has_room_or_the_newest_one: "on-full",
        no_fault_makes_a_tenant_wait_for_more_than_its_turn: "fair",
        no_fault_changes_the_order_of_a_sequence: "sequences",
        no_race_and_no_fault_gives_a_key_to_two_jobs: "unique",
        no_fault_parts_the_effects_of_a_batch_from_its_ends: "batches",
        a_lost_reply_to_a_commit_loses_nothing_and_repeats_nothing: "unknown-commit",
        a_crashed_database_loses_nothing_and_ends_no_worker: "database-crash",
        a_failover_loses_nothing_and_its_standby_consumes_no_attempt: "failover",
        a_line_that_swallows_everything_delays_jobs_and_nothing_else: "black-hole",
        a_job_that_kills_its_workers_goes_and_takes_nobody_with_it: "poison-pill",
        many_claimers_share_no_job_and_pass_none_over: "claim-race",
        each_tick_is_one_job_whoever_dies_at_it: "cron",
        whatever_is_written_is_understood_or_refused: "fuzz",
        a_full_disk_loses_nothing_and_ends_no_worker: "disk-full",
        a_worker_without_connections_keeps_its_jobs: "starvation",
        a_live_job_is_never_rescued: "live-job",
        a_dropped_future_leaves_no_transaction_and_no_slot_behind: "cancelled-futures",
        what_nobody_should_enqueue_is_refused_or_fails_and_holds_nobody_up: "hostile-payloads",
        two_versions_of_the_schemas_programs_work_beside_each_other: "upgrade",
        a_migration_stops_nobody_and_is_applied_once: "migration",
        a_panic_costs_an_attempt_and_nothing_else: "panics",
        a_job_that_crashes_the_server_uses_up_its_attempts: "backend-killer",
        a_locked_row_holds_up_its_own_job_and_no_other: "locked-row",
        no_publication_stops_a_job_and_its_subscribers_get_everything: "publication",
        no_statistics_spoil_a_plan: "plans",
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
        no_fault_admits_too_many_or_leaves_a_permit_free: "limits",
        no_fault_admits_more_jobs_than_their_rate_allows: "rates",
        no_setting_of_the_database_loses_a_job_or_costs_an_attempt: "settings",
        killed_workers_lose_nothing_and_do_nothing_twice: "kill-storm",
        a_workers_clock_changes_nothing: "clocks",
        a_step_of_the_databases_clock_takes_no_job_from_its_worker: "clock-steps",
        deploys_lose_nothing_and_consume_no_attempt: "deploys",
        a_deploy_that_kills_its_workers_consumes_no_attempt: "hurried-deploys",
        an_older_version_touches_nothing_that_it_does_not_know: "mixed-versions",
        a_vanished_host_holds_nothing_for_longer_than_its_lease: "line-never-returns",
    }
    notices {
        effects_apart: "crash-points" "effects-apart",
        no_fence: "zombies" "no-fence",
        commits_anyway: "zombies" "commits-anyway",
        counts_before_the_lock: "limits" "counts-before-the-lock",
        begins_after_its_permits: "limits" "begins-after-its-permits",
        looks_at_the_first_limit: "limits" "looks-at-the-first-limit",
        frees_before_the_fence: "limits" "frees-before-the-fence",
        passes_on_one_more: "limits" "passes-on-one-more",
        gives_its_turn_away: "sequences" "gives-its-turn-away",
        runs_again_at_once: "unique" "runs-again-at-once",
        quiet_without_end: "unique" "quiet-without-end",
        commits_without_some: "batches" "commits-without-some",
        blames_everybody: "poison-pill" "blames-everybody",
        costly_return: "deploys" "costly-return",
        hard_on_the_stopped: "hurried-deploys" "hard-on-the-stopped",
        ticks_for_all: "cron" "ticks-for-all",
        own_clock: "clocks" "own-clock",
        as_it_is: "cancelled-futures" "as-it-is",
        takes_all_kinds: "mixed-versions" "takes-all-kinds",
        takes_all_flags: "upgrade" "takes-all-flags",
        looks_into_arguments: "hostile-payloads" "looks-into-arguments",
        dies_of_panics: "panics" "dies-of-panics",
        waits_for_rows: "locked-row" "waits-for-rows",
        other_order: "plans" "other-order",
    }
}
