//! The tables, as Diesel needs them. Times are microseconds since 1970. The clock is in `time.rs`.

diesel::table! {
    jobs_job (id) {
        id -> BigInt,
        state -> Text,
        kind -> Text,
        queue -> Text,
        priority -> SmallInt,
        attempt -> Integer,
        max_attempts -> Integer,
        crashes -> Integer,
        lease -> Integer,
        flags -> Integer,
        run_at -> BigInt,
        enqueued_at -> BigInt,
        claimed_at -> Nullable<BigInt>,
        finished_at -> Nullable<BigInt>,
        expires_at -> Nullable<BigInt>,
        worker -> Nullable<Text>,
        tags -> Text,
        args -> Text,
        traceparent -> Nullable<Text>,
        rules -> Nullable<Text>,
        lane -> Nullable<Text>,
        due_at -> Nullable<BigInt>,
        start_by -> Nullable<BigInt>,
        start_after -> Nullable<BigInt>,
    }
}

diesel::table! {
    jobs_job_error (id) {
        id -> BigInt,
        job_id -> BigInt,
        attempt -> Integer,
        kind -> Text,
        message -> Text,
        started_at -> Nullable<BigInt>,
        worker -> Nullable<Text>,
        at -> BigInt,
        fingerprint -> Nullable<BigInt>,
        place -> Nullable<Text>,
        backtrace -> Nullable<Text>,
        actor -> Nullable<Text>,
    }
}

diesel::table! {
    jobs_worker (id) {
        id -> Text,
        host -> Text,
        pid -> Integer,
        queues -> Text,
        lease_micros -> BigInt,
        started_at -> BigInt,
        heartbeat_at -> BigInt,
        version -> Nullable<Text>,
        slots -> Nullable<Text>,
        slots_total -> Nullable<Integer>,
        kinds -> Nullable<Text>,
        schedules -> Nullable<Text>,
        discard_rules -> Nullable<Text>,
        asked -> Nullable<Text>,
        asked_at -> Nullable<BigInt>,
        asked_by -> Nullable<Text>,
        draining_at -> Nullable<BigInt>,
        had_others -> Bool,
    }
}

diesel::table! {
    jobs_queue (name) {
        name -> Text,
        paused -> Bool,
        paused_at -> Nullable<BigInt>,
        paused_by -> Nullable<Text>,
        paused_reason -> Nullable<Text>,
        slots -> Nullable<Integer>,
    }
}

diesel::table! {
    jobs_kind (name) {
        name -> Text,
        paused -> Bool,
        paused_at -> Nullable<BigInt>,
        paused_by -> Nullable<Text>,
        paused_reason -> Nullable<Text>,
    }
}

diesel::table! {
    jobs_retention (kind, state) {
        kind -> Text,
        state -> Text,
        keep_micros -> Nullable<BigInt>,
    }
}

diesel::table! {
    jobs_audit (id) {
        id -> BigInt,
        at -> BigInt,
        actor -> Text,
        action -> Text,
        target -> Text,
        detail -> Nullable<Text>,
    }
}

diesel::table! {
    jobs_operation (id) {
        id -> BigInt,
        action -> Text,
        argument -> Nullable<Text>,
        filter -> Text,
        actor -> Text,
        created_at -> BigInt,
        next_id -> BigInt,
        last_id -> BigInt,
        examined -> BigInt,
        changed -> BigInt,
        finished_at -> Nullable<BigInt>,
        cancelled_by -> Nullable<Text>,
        problem -> Nullable<Text>,
    }
}

diesel::table! {
    jobs_history (id) {
        id -> BigInt,
        at -> BigInt,
        minutes -> Integer,
        batch -> Nullable<Text>,
        queue -> Text,
        kind -> Text,
        completed -> BigInt,
        retried -> BigInt,
        discarded -> BigInt,
        cancelled -> BigInt,
        snoozed -> BigInt,
        waits -> Text,
        runs -> Text,
        wait_seconds -> Double,
        run_seconds -> Double,
    }
}

diesel::table! {
    jobs_limit_setting (name) {
        name -> Text,
        most -> Integer,
        set_at -> BigInt,
        set_by -> Text,
        reason -> Nullable<Text>,
    }
}

diesel::table! {
    jobs_permit (job_id, limit_name) {
        job_id -> BigInt,
        limit_name -> Text,
        limit_key -> Text,
        halted_at -> Nullable<BigInt>,
    }
}

diesel::table! {
    /// It has no primary key. Diesel needs one.
    jobs_nudge (limit_name, limit_key) {
        limit_name -> Text,
        limit_key -> Text,
    }
}

diesel::table! {
    jobs_unique_key (name, key) {
        name -> Text,
        key -> Text,
        job_id -> BigInt,
        started -> Bool,
        until -> Nullable<BigInt>,
    }
}

diesel::table! {
    jobs_sample (only_row) {
        only_row -> Integer,
        at -> Nullable<BigInt>,
        next_at -> BigInt,
        resting -> Nullable<Text>,
        took_seconds -> Double,
        counts -> Text,
    }
}

diesel::table! {
    jobs_installation (only_row) {
        only_row -> Integer,
        environment -> Nullable<Text>,
        frozen_at -> Nullable<BigInt>,
        frozen_by -> Nullable<Text>,
        frozen_reason -> Nullable<Text>,
    }
}

diesel::table! {
    jobs_schedule (name) {
        name -> Text,
        kind -> Text,
        expression -> Text,
        timezone -> Text,
        catch_up -> Text,
        last_tick -> BigInt,
        last_job -> Nullable<BigInt>,
        last_run_at -> Nullable<BigInt>,
        flags -> Integer,
        paused -> Bool,
        args -> Nullable<Text>,
        queue -> Nullable<Text>,
        priority -> Nullable<SmallInt>,
        max_attempts -> Nullable<Integer>,
        added_by -> Nullable<Text>,
        changed_by -> Nullable<Text>,
        changed_at -> Nullable<BigInt>,
        declared -> Nullable<Text>,
        paused_at -> Nullable<BigInt>,
        paused_by -> Nullable<Text>,
        paused_reason -> Nullable<Text>,
    }
}

diesel::table! {
    jobs_on_discarded (kind) {
        kind -> Text,
        enqueues -> Text,
        queue -> Text,
        priority -> SmallInt,
        max_attempts -> Integer,
        args -> Text,
        argument -> Text,
        rules -> Nullable<Text>,
        expires_micros -> Nullable<BigInt>,
    }
}

diesel::table! {
    jobs_schema_migration (version) {
        version -> Integer,
        oldest_program -> Nullable<Integer>,
    }
}

diesel::table! {
    /// SQLite's own table of the objects in the file.
    sqlite_master (name) {
        name -> Text,
    }
}

crate::job_view!(sqlite);

diesel::allow_tables_to_appear_in_same_query!(jobs_job, jobs_worker, jobs_queue, jobs_job_error);
diesel::allow_tables_to_appear_in_same_query!(jobs_worker, jobs_installation);
