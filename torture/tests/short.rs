//! The short forms of the torture suite. Each is one test with a cluster of its own, real workers and real faults. They run two at a time,
//! because they mostly wait. So do the mutants that are noticed by what they do, and not by their speed. Tests that measure fractions
//! of a second are in `alone.rs`.
#![allow(missing_docs, clippy::print_stdout)]

mod suite;

use suite::{Home, run_on, short};

static HOMES: [Home; 2] = [Home::new("torture"), Home::new("torture-too")];

/// Runs the suite while at most one other run is in progress.
fn in_company(args: &[&str]) {
    run_on(&HOMES, args);
}

short! {
    in_company by in_company {
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
        a_panic_costs_an_attempt_and_nothing_else: "panics",
        a_job_that_crashes_the_server_uses_up_its_attempts: "backend-killer",
        a_locked_row_holds_up_its_own_job_and_no_other: "locked-row",
        no_publication_stops_a_job_and_its_subscribers_get_everything: "publication",
        no_statistics_spoil_a_plan: "plans",
    }
    mutants_noticed_by by in_company {
        kill_storm: "kill-storm" "--mutants",
        crash_points: "crash-points" "--mutants",
        zombies: "zombies" "--mutants",
        limits: "limits" "--mutants",
        on_full: "on-full" "--mutants",
        fair: "fair" "--mutants",
        rates: "rates" "--mutants",
        sequences: "sequences" "--mutants",
        unique: "unique" "--mutants",
        batches: "batches" "--mutants",
        unknown_commit: "unknown-commit" "--mutants",
        database_crash: "database-crash" "--mutants",
        black_hole: "black-hole" "--mutants",
        line_never_returns: "line-never-returns" "--mutants",
        settings: "settings" "--mutants",
        poison_pill: "poison-pill" "--mutants",
        poisoned_rows: "poisoned-rows" "--mutants",
        claim_race: "claim-race" "--mutants",
        cron: "cron" "--mutants",
        clocks: "clocks" "--mutants",
        clock_steps: "clock-steps" "--mutants",
        server_errors: "server-errors" "--mutants",
        disk_full: "disk-full" "--mutants",
        starvation: "starvation" "--mutants",
        deploys: "deploys" "--mutants",
        lost_notifications: "lost-notifications" "--mutants",
        pgbouncer: "pgbouncer" "--mutants",
        live_job: "live-job" "--mutants",
        cancelled_futures: "cancelled-futures" "--mutants",
        mixed_versions: "mixed-versions" "--mutants",
        upgrade: "upgrade" "--mutants",
        hostile_payloads: "hostile-payloads" "--mutants",
        panics: "panics" "--mutants",
        lock_strength: "lock-strength" "--mutants",
        backend_killer: "backend-killer" "--mutants",
        locked_row: "locked-row" "--mutants",
        publication: "publication" "--mutants",
        plans: "plans" "--mutants",
    }
}
