//! The requirements of a storage. They are written once and run on every storage. A test is an `async fn` over a
//! [`fixture::Fixture`]. The list at the end of this file makes one `#[test]` of it for each storage.
//!
//! The tests for PostgreSQL need a server of their own: run them with `cargo xtask test`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stderr, missing_docs)]

mod acting;
mod bench;
mod client;
mod fixture;

mod changing;
mod claiming;
mod completing_in;
mod discarding;
mod draining;
mod enqueueing;
mod examining;
mod expiring;
mod explaining;
mod failing;
mod fair;
mod fencing;
mod filtering;
mod finishing;
mod flow_control;
mod followers;
mod free_permits;
mod freezing;
mod history;
mod hostile;
mod isolation;
mod keys;
mod limiting;
mod memory;
mod migrating;
mod model;
mod moving;
mod newer;
mod on_full;
mod operating;
mod outputs;
mod progress;
mod pruning;
mod rates;
mod repeating;
mod rescuing;
mod running_again;
mod scheduling;
mod scheduling_at_run_time;
mod sequencing;
mod setting;
mod several;
mod transacting;
mod transacting_batches;
mod unique;

use model::regressions as living;

#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "sqlite")]
mod sqlite;

/// Makes one `#[test]` per listed function, for one storage.
macro_rules! on {
    ($storage:ident: $fixture:ty { $($module:ident { $($claim:ident),* $(,)? })* }) => {
        mod $storage {
            $(mod $module {
                $(#[test]
                fn $claim() {
                    crate::fixture::run::<$fixture, _>(crate::$module::$claim);
                })*
            })*
        }
    };
}

/// Makes the tests for every storage in this build.
macro_rules! conformance {
    ($($claims:tt)*) => {
        #[cfg(feature = "sqlite")]
        on!(on_sqlite: crate::sqlite::Sqlite { $($claims)* });
        #[cfg(feature = "postgres")]
        on!(on_postgres: crate::postgres::Postgres { $($claims)* });
    };
}

conformance! {
    enqueueing {
        a_job_comes_out_as_it_went_in,
        bulk_insert_keeps_run_at,
        a_rollback_leaves_nothing,
        a_commit_brings_all,
        ids_come_in_the_order_of_the_jobs,
        ten_thousand_jobs_of_mixed_kinds_go_in_together,
        nothing_is_enqueued_by_an_empty_list,
        an_invalid_job_is_refused_and_the_transaction_goes_on,
        arguments_above_the_limit_are_refused_and_those_at_the_limit_are_not,
        arguments_that_no_worker_could_read_are_refused,
        nul_and_other_characters_in_arguments_come_back,
        hostile_names_are_only_names,
        a_start_in_the_past_is_now,
        a_missing_schema_says_what_to_run,
    }
    claiming {
        higher_priorities_first_then_run_at_then_id,
        no_more_than_wanted_per_queue,
        a_limit_of_all_queues_takes_the_first_ones_first,
        queues_are_found_by_their_waiting_jobs,
        other_queues_are_left_alone,
        scheduled_jobs_are_not_early,
        future_jobs_of_a_high_priority_do_not_hide_due_ones_of_a_low,
        next_due_is_the_wait_for_the_earliest_job_that_fits,
        jobs_of_unknown_kinds_are_not_claimed_and_block_no_job,
        a_worker_that_is_not_registered_gets_nothing,
        a_paused_queue_gives_nothing,
        many_claimers_get_each_job_once_and_never_more_than_wanted,
        a_claim_counts_the_attempt_and_the_lease,
        prefetching_brings_more_jobs_than_slots,
        prefetching_ends_at_the_first_job_that_one_more_crash_would_end,
    }
    finishing {
        complete_keeps_the_job_as_long_as_it_is_told,
        complete_with_nothing_kept_deletes_the_job_and_its_failures,
        retry_waits_its_delay_and_records_the_failure,
        a_failure_names_the_worker_and_the_start_of_its_attempt,
        snooze_waits_and_gives_the_attempt_back,
        release_goes_back_to_its_old_place_and_gives_the_attempt_back,
        cancel_and_discard_end_the_job_and_record_why,
        a_batch_moves_all_its_jobs,
        failures_with_nul_are_recorded,
        only_the_newest_failures_are_kept,
        endless_delays_are_only_long,
        a_listener_hears_of_an_enqueue,
        a_listener_of_a_pattern_hears_of_queues_that_fit,
    }
    keys {
        equal_values_have_one_key_and_no_others,
        a_value_of_the_builder_and_an_argument_make_one_key,
    }
    limiting {
        as_many_start_as_the_limit_allows,
        a_bulk_of_many_keys_answers_in_its_order,
        every_end_gives_the_permit_back,
        a_retry_waits_for_its_turn_and_a_release_keeps_it,
        a_rescued_job_keeps_its_permit_and_a_discarded_one_does_not,
        handlers_give_the_permit_back_in_their_own_transaction,
        every_way_to_complete_with_an_output_gives_permit_and_key_back,
        a_job_for_later_is_admitted_when_it_is_due,
        a_sweep_finds_keys_without_a_nudge,
        an_enqueue_is_a_part_of_its_transaction,
        large_arguments_wait_with_their_job,
        operators_act_on_held_jobs,
        held_jobs_are_found_and_counted,
        a_queue_of_held_jobs_alone_has_a_depth_and_a_diagnosis,
        limits_are_listed_with_the_keys_that_hold_jobs_back,
        a_paused_queue_takes_no_permits,
        sweeps_reach_all_keys_in_turns,
        jobs_that_may_not_start_delay_no_other,
        a_resume_finds_all_keys_at_once,
        a_job_that_the_database_refuses_stops_no_other,
        an_error_that_is_not_about_the_job_stops_no_other,
        a_job_that_is_tried_again_spends_no_token_and_keeps_its_turn,
        a_job_that_a_sweep_cannot_free_stops_no_other,
        at_no_time_are_there_more_than_the_limit,
    }
    expiring {
        a_first_attempt_says_by_when_it_must_start,
        waiting_jobs_that_have_expired_are_cancelled,
        a_job_that_is_not_cancelled_stops_no_other,
        a_claimed_job_is_left_to_its_worker,
        a_released_job_still_expires,
        a_job_that_has_started_does_not_expire,
        an_operator_runs_an_expired_job,
        a_changed_time_moves_the_expiry,
        the_time_of_a_schedule_counts,
        nothing_expires_while_the_database_is_frozen,
        why_says_when_a_job_expires,
    }
    on_full {
        a_job_that_finds_its_limit_full_is_discarded,
        the_decision_leaves_what_a_pass_would_admit,
        a_job_that_has_started_waits,
        an_operator_runs_a_discarded_job,
        paused_and_later_jobs_are_not_looked_at,
        a_job_that_finds_no_token_is_discarded,
        the_newest_jobs_of_a_key_run,
        jobs_that_have_another_rule_are_not_cancelled,
        a_waiting_retry_is_cancelled_like_the_oldest,
        what_an_operator_has_set_counts,
        a_discarded_job_is_followed_and_frees_its_key,
        a_job_that_is_not_discarded_stops_no_other,
        a_job_that_is_not_cancelled_stops_no_other,
        a_reason_that_is_refused_stops_no_other,
        nothing_ends_while_the_database_is_frozen,
        two_may_decide_at_once,
        why_says_what_happens_if_it_is_full,
    }
    rates {
        first_a_burst_starts_and_then_one_after_the_other,
        tokens_come_back_up_to_the_burst,
        keys_have_tokens_of_their_own,
        the_highest_priority_comes_first,
        a_retry_and_a_snooze_spend_a_token,
        a_rescued_job_keeps_its_token,
        a_rollback_spends_no_token,
        a_paused_queue_spends_no_tokens,
        a_sweep_finds_rates_without_a_nudge,
        operators_act_on_jobs_with_a_rate,
        a_rate_that_is_changed_holds_for_the_next_job,
        why_says_when_the_token_comes,
        why_counts_the_jobs_before_one_of_any_priority,
        the_starts_keep_to_the_rate,
        rates_are_listed_with_the_time_of_their_next_token,
        no_pass_follows_at_once_where_nothing_may_start,
    }
    fair {
        each_way_of_enqueueing_stores_the_tenant,
        all_tenants_that_wait_get_equal_shares,
        a_tenant_with_many_jobs_delays_no_other,
        with_one_permit_the_turn_goes_on_from_pass_to_pass,
        a_tenant_that_comes_later_has_its_turn_in_one_round,
        the_order_within_a_tenant_is_the_usual_one,
        few_tenants_fill_all_permits,
        each_key_has_turns_of_its_own,
        jobs_without_a_tenant_start_at_once_when_no_tenant_waits,
        a_turn_is_kept_while_jobs_wait_or_run,
        jobs_without_a_tenant_are_one_tenant,
        paused_jobs_lose_their_turn_and_delay_no_other,
        what_operators_set_holds_for_all_tenants,
        a_retry_waits_for_a_turn_of_its_tenant,
        a_rescued_job_keeps_its_permit_and_a_cancelled_one_gives_it_back,
        a_sweep_finds_tenants_without_a_nudge,
        why_says_with_whom_the_tenant_takes_turns,
    }
    sequencing {
        jobs_run_one_after_the_other_by_id,
        a_job_keeps_its_turn_until_it_has_ended_for_good,
        a_killed_worker_does_not_change_the_order,
        a_rescue_that_discards_halts_the_sequence,
        a_job_that_is_not_due_stops_those_behind_it,
        a_discarded_job_halts_its_sequence_until_it_is_retried,
        an_operator_skips_a_discarded_job,
        a_deleted_job_does_not_lose_the_halt,
        with_skip_the_next_job_starts,
        operators_take_jobs_out_of_a_sequence,
        a_paused_job_stops_its_sequence_and_no_other,
        a_sweep_finds_sequences_without_a_nudge,
        the_order_holds_beside_other_workers,
    }
    several {
        a_job_starts_when_all_its_limits_allow_it,
        a_job_that_waits_has_no_permit_of_any_limit,
        limits_in_any_order_do_not_lock_each_other,
        every_end_gives_all_permits_back,
        a_retried_job_waits_for_all_its_limits_again,
        a_rescued_job_keeps_all_its_permits,
        a_full_limit_costs_one_look_however_many_jobs_wait,
        a_job_keeps_its_turn_while_it_waits_for_its_limit,
        a_job_that_ends_while_it_waits_lets_the_next_one_move_up,
        a_discarded_job_halts_its_sequence_and_frees_its_limit,
        a_token_is_spent_when_the_job_starts,
        operators_set_each_limit_by_its_name,
        operators_act_on_jobs_with_several_limits,
        a_paused_queue_takes_no_permits_of_any_limit,
        a_sweep_finds_several_limits_without_a_nudge,
        a_replaced_job_keeps_its_turn_and_waits_again,
        a_limit_and_a_rate_of_one_name_do_not_start_each_others_jobs,
    }
    free_permits {
        a_pass_starts_as_many_as_there_are_free_permits,
        a_sweep_starts_as_many_as_there_are_free_permits,
        a_finish_passes_on_no_more_than_there_are_free_permits,
        a_limit_beside_another_has_as_many_free_permits,
        a_job_is_discarded_if_no_permit_is_free,
    }
    repeating {
        jobs_are_enqueued_anew_once_for_a_key,
        of_requests_with_one_key_at_the_same_time_one_is_done,
        an_operation_starts_once_for_a_key,
        jobs_of_a_schedule_are_enqueued_once_for_a_key,
    }
    flow_control {
        a_raised_limit_lets_held_jobs_start_with_the_next_pass,
        a_lowered_limit_admits_nothing_until_enough_permits_are_free,
        a_limit_of_zero_admits_none,
        a_limit_is_set_once_and_outlives_the_session,
        the_number_of_a_sequence_is_not_changed,
        a_change_nudges_each_key_once,
        only_a_permit_that_no_job_needs_is_released,
        a_permit_under_a_dead_worker_is_released_and_its_job_goes_on,
        the_permit_of_a_sequence_is_not_released,
        halted_sequences_are_a_finding,
        repairs_work_for_names_that_begin_like_options,
        a_released_key_is_free_and_its_job_goes_on,
        why_names_the_unique_key_and_whether_it_counts,
    }
    unique {
        an_enqueue_keeps_the_job_that_has_the_key,
        every_end_releases_the_key,
        a_rescue_keeps_or_releases_the_key,
        a_key_until_the_start_is_free_when_the_job_has_started,
        a_waiting_job_is_replaced,
        a_conflict_is_an_error_that_leaves_the_transaction_usable,
        a_key_ends_with_its_time,
        a_rollback_frees_the_key,
        a_bulk_has_an_answer_for_each_job_in_order,
        without_by_all_arguments_are_the_key,
        a_debounced_job_has_the_newest_arguments,
        a_job_that_is_scheduled_again_takes_no_permit,
        one_of_many_rivals_wins,
        bulks_with_the_same_keys_all_succeed,
    }
    isolation {
        a_transaction_that_cannot_see_the_job_with_the_key_is_to_be_repeated,
        a_transaction_that_sees_an_older_state_of_the_job_is_to_be_repeated,
        jobs_without_a_key_meet_nobody,
    }
    running_again {
        a_job_runs_again_after_the_running_one,
        a_waiting_retry_gets_the_arguments,
        a_job_that_runs_again_survives_its_worker,
        a_cancelled_follower_leaves_the_key_free,
        a_bulk_has_one_follower_of_each_key,
    }
    explaining {
        a_job_that_is_not_there_may_be_gone_or_not_be_there_yet,
        a_job_that_has_ended_or_runs_says_so,
        a_job_that_waits_for_its_time_says_until_when,
        what_operators_have_stopped_says_who_did_it,
        a_discarded_job_says_why_it_had_no_further_attempt,
        a_misspelt_queue_or_kind_says_which_was_meant,
        a_job_that_no_worker_can_run_says_which_is_missing,
        a_job_in_a_line_says_what_comes_first,
        a_worker_that_runs_all_it_may_in_other_queues_says_so,
        a_quarantined_or_newer_job_says_so,
    }
    examining {
        a_fresh_database_has_no_error,
        a_missing_schema_is_the_only_finding,
        a_dropped_index_is_created_again,
        jobs_that_no_worker_can_run_are_reported,
        late_jobs_crashes_and_dead_leases_are_named,
        rows_that_should_be_gone_are_named,
        schedules_that_do_not_tick_are_named,
        what_a_clock_that_went_back_has_left_is_named_and_repaired,
        the_doctor_says_of_rates_and_sequences_what_can_be_done,
    }
    failing {
        a_failure_is_stored_with_its_fingerprint_place_and_backtrace,
        in_a_batch_each_failure_goes_to_its_job,
        all_crashes_and_all_cancels_have_the_same_fingerprint,
        a_cancelled_job_is_a_failure_only_if_it_failed_before,
        a_worker_can_ask_who_cancelled_its_jobs,
    }
    outputs {
        an_output_is_read_as_it_was_stored,
        an_output_that_is_too_large_leaves_a_note,
        a_batch_of_large_outputs_is_stored,
        only_the_output_of_the_attempt_that_completed_counts,
        a_lost_lease_stores_nothing,
        a_transaction_stores_its_output_with_its_commit,
        an_output_goes_with_its_job,
        a_prune_leaves_the_output_of_a_job_that_waits,
        a_job_that_is_not_kept_has_no_output,
        a_wait_ends_with_the_job,
    }
    progress {
        the_newest_report_is_kept_over_the_attempts,
        many_reports_are_stored_at_once_and_jobs_that_are_gone_left_out,
        progress_and_output_stand_beside_each_other_and_go_with_the_job,
    }
    discarding {
        a_discarded_job_enqueues_what_the_rule_of_its_kind_says,
        only_a_discard_that_counts_enqueues_it,
        many_discards_in_a_batch_enqueue_one_each,
        a_rescue_that_discards_enqueues_it_too,
        a_job_whose_follower_is_refused_ends_nevertheless,
        a_rule_that_a_live_worker_declares_otherwise_is_named,
        programs_with_different_rules_start_at_the_same_time,
        rules_are_replaced_and_removed_with_their_code,
        a_discarded_job_that_is_not_kept_enqueues_it_too,
        the_other_arguments_of_a_rule_are_kept_as_they_are,
    }
    followers {
        it_waits_while_another_job_of_its_key_runs,
        it_is_stored_as_an_enqueue_stores_it,
        it_is_held_in_whatever_way_the_job_was_discarded,
        followers_of_a_sequence_run_one_after_the_other,
        a_follower_in_the_halted_sequence_waits,
        followers_with_a_rate_wait_for_tokens,
        a_follower_with_two_rules_waits_for_both,
        a_follower_that_finds_its_limit_full_is_discarded,
        a_follower_that_starts_too_late_is_cancelled,
        rules_that_are_stored_already_are_only_read,
    }
    fencing {
        a_heartbeat_knows_and_releases_valid_leases_only,
        an_older_lease_is_refused,
        another_workers_lease_is_refused,
        the_same_worker_at_the_same_attempt_after_a_snooze_is_refused,
        a_second_finish_of_the_same_lease_is_refused,
        a_batch_leaves_out_lost_leases_and_moves_the_others,
        a_batch_of_completions_leaves_out_what_has_ended_already,
        a_refused_finish_writes_nothing,
        a_cancelled_job_refuses_its_worker,
        lease_numbers_never_fall,
        the_idempotency_key_stays_whatever_becomes_of_the_job_and_comes_once,
    }
    draining {
        the_jobs_of_a_worker_that_was_draining_are_released,
        a_worker_of_many_that_dies_counts_a_crash_unless_it_was_draining,
        too_many_kills_of_a_job_count_as_crashes,
        a_job_that_crashes_its_worker_counts_a_crash_after_kills_too,
        a_killed_job_keeps_its_permit_its_key_and_its_turn,
        a_kill_is_no_failure_and_is_in_the_history_of_its_job,
        a_worker_that_comes_back_after_its_rescue_writes_nothing,
    }
    rescuing {
        a_dead_workers_jobs_wait_again_with_a_crash_counted,
        a_live_workers_jobs_are_left_alone,
        a_rescuer_whose_own_row_is_too_old_declares_no_worker_dead,
        a_heartbeat_keeps_a_worker_alive,
        a_heartbeat_says_how_long_its_worker_counts_as_alive,
        a_job_that_crashed_too_often_is_discarded,
        a_job_without_attempts_left_is_discarded,
        of_the_jobs_that_died_together_none_is_discarded_for_it,
        both_databases_decide_as_the_policy_does,
        a_quarantined_job_is_claimed_by_itself_and_by_one_worker_in_four,
        a_snooze_sets_the_crashes_to_zero_and_a_failure_does_not,
        a_zombies_finish_is_refused_and_its_heartbeat_says_no,
        concurrent_rescuers_count_one_crash,
        a_lost_job_that_is_not_discarded_stops_no_other,
        a_lost_job_that_is_refused_is_treated_like_the_others_later,
    }
    moving {
        large_arguments_come_back_in_every_state,
        large_arguments_go_with_their_job,
    }
    pruning {
        only_expired_jobs_are_deleted,
        a_prune_deletes_no_more_than_its_limit_and_failures_go_too,
    }
    filtering {
        a_filter_finds_the_jobs_that_meet_all_its_conditions,
        a_fingerprint_finds_old_jobs_behind_many_others,
        arguments_of_any_size_and_content_are_searched,
        pages_follow_each_other,
        a_search_ends_after_a_bounded_number_of_rows,
        a_kind_that_was_not_counted_is_searched_among_newer_jobs_only,
        a_filter_that_no_database_can_look_for_is_refused,
    }
    changing {
        every_type_of_connection_changes_jobs,
        a_rollback_undoes_a_change,
        an_application_changes_what_an_operator_changes,
        jobs_of_all_sorts_are_retried_together,
        jobs_are_found_by_their_tag,
        a_job_is_found_by_its_unique_key,
        a_cancelled_job_that_runs_loses_its_lease,
        permits_are_given_back,
        a_sequence_goes_on_after_a_cancelled_job,
        a_change_respects_retention_and_expiry,
        impossible_times_are_refused,
    }
    acting {
        every_action_in_every_state,
        a_changed_job_is_claimed_as_it_is_now,
        a_rescheduled_job_is_due_at_its_new_time_and_has_no_permit_until_then,
        large_arguments_outlive_every_action,
        each_action_writes_one_entry_to_the_audit,
        an_operation_acts_on_all_that_match_and_exist_at_its_start,
        steps_of_several_sessions_change_each_job_once,
        a_cancelled_operation_ends,
        an_operation_that_cannot_be_read_ends_and_changes_nothing,
        failures_are_grouped,
        every_attempt_is_returned,
        an_import_enqueues_all_jobs_or_none,
    }
    operating {
        show_knows_every_job_in_every_state,
        list_filters_and_is_newest_first,
        retry_in_every_state,
        retry_leaves_at_least_one_attempt,
        cancel_in_every_state,
        many_jobs_at_once_are_answered_for_one_by_one,
        stats_count_each_state,
        workers_are_listed_with_their_pulse,
    }
    setting {
        a_queue_is_paused_and_resumed_once_and_each_is_in_the_audit,
        a_kind_is_paused_and_resumed_once,
        a_pause_by_sql_is_shown_without_its_author,
        slots_are_set_and_unset,
        the_overview_has_each_queue_and_who_serves_it,
        of_two_operators_one_pauses,
        names_and_reasons_that_cannot_be_stored_are_refused,
        a_worker_reads_what_is_set,
        retention_is_set_for_a_kind_or_for_all,
        an_operators_cancel_follows_the_retention,
        a_rescue_follows_the_retention,
        a_worker_is_asked_and_learns_it_from_its_heartbeat,
        what_a_worker_runs_is_listed,
    }
    scheduling_at_run_time {
        an_added_schedule_is_the_operators,
        a_changed_schedule_is_not_overwritten_and_can_be_reset,
        the_code_may_declare_what_an_operator_has_added,
        pauses_and_resumes_are_answered,
        only_added_schedules_are_removed,
        jobs_are_enqueued_outside_the_ticks,
        schedules_that_cannot_work_are_refused,
        a_schedule_of_a_later_version_is_left_alone,
        the_last_run_is_the_newest_job_of_the_schedule,
    }
    scheduling {
        a_new_schedule_starts_now,
        an_unchanged_schedule_keeps_its_last_tick_and_a_changed_one_goes_on_from_now,
        schedules_that_are_not_declared_stay,
        concurrent_tickers_enqueue_a_tick_once,
        a_paused_schedule_does_not_tick,
        a_declaration_stays_while_a_live_worker_declares_it,
    }
    freezing {
        a_heartbeat_says_whether_it_is_frozen,
        nothing_is_claimed_while_it_is_frozen_and_everything_after_a_thaw,
        what_runs_goes_on_while_it_is_frozen,
        quarantined_jobs_schedules_and_history_wait_for_the_thaw,
        a_second_freeze_changes_nothing_and_hostile_words_are_only_words,
        an_environment_is_kept_beside_a_freeze,
        cancelling_all_leaves_what_was_enqueued_since_and_what_is_newer,
        schedules_go_on_from_now_once_their_missed_ticks_are_forgotten,
        changes_of_the_whole_database_are_audited_once,
        jobs_that_are_cancelled_with_all_others_are_in_the_audit,
    }
    history {
        a_minute_is_stored_once_and_shown_in_its_step,
        old_rows_are_joined_and_pruned,
        folding_changes_no_sum,
        one_worker_at_a_time_counts_all_jobs,
        depths_are_exact_up_to_ten_thousand_and_marked_above,
        leased_jobs_are_listed_with_their_worker,
        bins_of_many_workers_are_added,
        events_are_read_from_where_the_last_reading_ended,
    }
    hostile {
        names_of_jobs_queues_and_tags_come_back_as_they_are,
        names_of_schedules_zones_hosts_and_queues_served_come_back_or_are_refused,
    }
    migrating {
        up_down_and_up_again,
        a_missing_schema_is_named_with_what_to_run,
        a_newer_schema_is_refused,
        tables_that_were_emptied_are_not_taken_for_those_of_others,
        a_newer_schema_that_serves_this_program_is_served,
        concurrent_migrators_apply_each_version_once,
        every_kind_of_connection_migrates,
    }
    newer {
        a_claim_leaves_them_alone,
        they_keep_their_flags_when_their_worker_moves_them,
        a_rescue_leaves_them_alone,
        a_prune_leaves_them_alone,
        an_operator_is_told_to_use_the_newer_program,
        a_schedule_with_one_neither_ticks_nor_changes,
    }
    transacting {
        effects_and_completion_commit_together,
        a_failed_handler_leaves_nothing_and_keeps_its_lease,
        a_lost_lease_rolls_everything_back,
        a_lease_lost_while_the_handler_runs_rolls_everything_back,
        an_aborted_handler_leaves_nothing,
        a_snooze_commits_its_effects,
        connections_the_storage_does_not_have_are_not_provided,
    }
    transacting_batches {
        the_jobs_end_each_in_its_way_with_the_effects,
        many_jobs_complete_at_once,
        one_lost_lease_rolls_all_of_them_back,
        an_error_leaves_all_leases,
        permits_and_keys_are_given_back_in_the_transaction,
    }
    living {
        a_failure_before_the_first_attempt_goes_with_its_job,
        a_claim_for_more_kinds_begins_at_the_first_job,
        a_discarded_job_that_is_not_kept_leaves_no_failure,
    }
    completing_in {
        a_commit_completes_the_job,
        a_rollback_leaves_the_job_running,
        outside_of_a_transaction_it_is_refused,
        a_lost_lease_is_refused,
    }
}

// What a worker needs, on a storage that offers nothing else. A new database passes these tests first.
on!(in_memory: crate::memory::Memory {
    claiming {
        higher_priorities_first_then_run_at_then_id,
        no_more_than_wanted_per_queue,
        a_limit_of_all_queues_takes_the_first_ones_first,
        other_queues_are_left_alone,
        scheduled_jobs_are_not_early,
        future_jobs_of_a_high_priority_do_not_hide_due_ones_of_a_low,
        next_due_is_the_wait_for_the_earliest_job_that_fits,
        jobs_of_unknown_kinds_are_not_claimed_and_block_no_job,
        a_worker_that_is_not_registered_gets_nothing,
        a_claim_counts_the_attempt_and_the_lease,
        prefetching_brings_more_jobs_than_slots,
    }
    finishing {
        complete_keeps_the_job_as_long_as_it_is_told,
        retry_waits_its_delay_and_records_the_failure,
        release_goes_back_to_its_old_place_and_gives_the_attempt_back,
        cancel_and_discard_end_the_job_and_record_why,
        failures_with_nul_are_recorded,
        only_the_newest_failures_are_kept,
        endless_delays_are_only_long,
    }
    fencing {
        a_heartbeat_knows_and_releases_valid_leases_only,
        an_older_lease_is_refused,
        another_workers_lease_is_refused,
        the_same_worker_at_the_same_attempt_after_a_snooze_is_refused,
        a_refused_finish_writes_nothing,
    }
    rescuing {
        a_rescuer_whose_own_row_is_too_old_declares_no_worker_dead,
        a_live_workers_jobs_are_left_alone,
        a_heartbeat_keeps_a_worker_alive,
        a_heartbeat_says_how_long_its_worker_counts_as_alive,
        a_job_that_crashed_too_often_is_discarded,
        a_job_without_attempts_left_is_discarded,
        of_the_jobs_that_died_together_none_is_discarded_for_it,
        a_quarantined_job_is_claimed_by_itself_and_by_one_worker_in_four,
        a_snooze_sets_the_crashes_to_zero_and_a_failure_does_not,
        a_zombies_finish_is_refused_and_its_heartbeat_says_no,
    }
    draining {
        a_worker_of_many_that_dies_counts_a_crash_unless_it_was_draining,
        a_job_that_crashes_its_worker_counts_a_crash_after_kills_too,
        a_worker_that_comes_back_after_its_rescue_writes_nothing,
    }
    pruning {
        only_expired_jobs_are_deleted,
    }
});
