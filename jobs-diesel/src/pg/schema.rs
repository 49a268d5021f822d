//! The tables for Diesel's typed statements. Their columns are in the order of the migration.
#![allow(missing_docs)] // the items are written by diesel's macro

diesel::table! {
    jobs.ready (id) {
        id -> BigInt,
        run_at -> Timestamptz,
        enqueued_at -> Timestamptz,
        lease -> Integer,
        priority -> SmallInt,
        attempt -> SmallInt,
        max_attempts -> SmallInt,
        crashes -> SmallInt,
        kind -> Text,
        queue -> Text,
        tags -> Nullable<Array<Text>>,
        args -> Json,
    }
}

diesel::table! {
    jobs.running (id) {
        id -> BigInt,
        claimed_at -> Timestamptz,
        lease -> Integer,
        attempt -> SmallInt,
        worker -> Uuid,
        kind -> Text,
        queue -> Text,
    }
}

diesel::table! {
    jobs.job_error (job_id, id) {
        job_id -> BigInt,
        id -> BigInt,
        attempt -> SmallInt,
        started_at -> Nullable<Timestamptz>,
        at -> Timestamptz,
        worker -> Nullable<Uuid>,
        kind -> Text,
        message -> Text,
        fingerprint -> Nullable<BigInt>,
        place -> Nullable<Text>,
        backtrace -> Nullable<Text>,
        actor -> Nullable<Text>,
    }
}

diesel::table! {
    jobs.worker (id) {
        id -> Uuid,
        host -> Text,
        pid -> Integer,
        queues -> Array<Text>,
        lease -> Interval,
        started_at -> Timestamptz,
        heartbeat_at -> Timestamptz,
        idle -> Bool,
        version -> Nullable<Text>,
        slots -> Nullable<Json>,
        slots_total -> Nullable<Integer>,
        kinds -> Nullable<Array<Text>>,
        schedules -> Nullable<Json>,
        discard_rules -> Nullable<Json>,
        asked -> Nullable<Text>,
        asked_at -> Nullable<Timestamptz>,
        asked_by -> Nullable<Text>,
        draining_at -> Nullable<Timestamptz>,
        had_others -> Bool,
    }
}

diesel::table! {
    jobs.installation (only_row) {
        only_row -> Bool,
        environment -> Nullable<Text>,
        frozen_at -> Nullable<Timestamptz>,
        frozen_by -> Nullable<Text>,
        frozen_reason -> Nullable<Text>,
    }
}

diesel::table! {
    jobs.schedule (name) {
        name -> Text,
        kind -> Text,
        expression -> Text,
        timezone -> Text,
        catch_up -> Text,
        last_tick -> Timestamptz,
        last_job -> Nullable<BigInt>,
        last_run_at -> Nullable<Timestamptz>,
        flags -> Integer,
        paused -> Bool,
        args -> Nullable<Json>,
        queue -> Nullable<Text>,
        priority -> Nullable<SmallInt>,
        max_attempts -> Nullable<SmallInt>,
        added_by -> Nullable<Text>,
        changed_by -> Nullable<Text>,
        changed_at -> Nullable<Timestamptz>,
        declared -> Nullable<Json>,
        paused_at -> Nullable<Timestamptz>,
        paused_by -> Nullable<Text>,
        paused_reason -> Nullable<Text>,
    }
}

diesel::table! {
    jobs.on_discarded (kind) {
        kind -> Text,
        enqueues -> Text,
        queue -> Text,
        priority -> SmallInt,
        max_attempts -> SmallInt,
        args -> Json,
        argument -> Text,
        rules -> Nullable<Json>,
        expires -> Nullable<Interval>,
    }
}

diesel::table! {
    jobs.queue (name) {
        name -> Text,
        paused -> Bool,
        paused_at -> Nullable<Timestamptz>,
        paused_by -> Nullable<Text>,
        paused_reason -> Nullable<Text>,
        slots -> Nullable<Integer>,
    }
}

diesel::table! {
    jobs.kind (name) {
        name -> Text,
        paused -> Bool,
        paused_at -> Nullable<Timestamptz>,
        paused_by -> Nullable<Text>,
        paused_reason -> Nullable<Text>,
    }
}

diesel::table! {
    jobs.retention (kind, state) {
        kind -> Text,
        state -> SmallInt,
        keep -> Nullable<Interval>,
    }
}

diesel::table! {
    jobs.limit_setting (name) {
        name -> Text,
        most -> Integer,
        set_at -> Timestamptz,
        set_by -> Text,
        reason -> Nullable<Text>,
    }
}

diesel::table! {
    jobs.permit (job_id, limit_name) {
        job_id -> BigInt,
        limit_name -> Text,
        limit_key -> Text,
        halted_at -> Nullable<Timestamptz>,
        number -> BigInt,
    }
}

diesel::table! {
    jobs.admission_floor (number) {
        number -> BigInt,
        floors -> Json,
    }
}

diesel::table! {
    /// It has no primary key. Diesel needs one.
    jobs.nudge (limit_name, limit_key) {
        run_at -> Nullable<Timestamptz>,
        place -> SmallInt,
        limit_name -> Text,
        limit_key -> Text,
    }
}

diesel::table! {
    jobs.unique_key (name, key) {
        name -> Text,
        key -> Text,
        job_id -> BigInt,
        started -> Bool,
        until -> Nullable<Timestamptz>,
    }
}

diesel::table! {
    jobs.audit (id) {
        id -> BigInt,
        at -> Timestamptz,
        actor -> Text,
        action -> Text,
        target -> Text,
        detail -> Nullable<Json>,
    }
}

diesel::table! {
    jobs.operation (id) {
        id -> BigInt,
        action -> Text,
        argument -> Nullable<Text>,
        filter -> Json,
        actor -> Text,
        created_at -> Timestamptz,
        next_id -> BigInt,
        last_id -> BigInt,
        examined -> BigInt,
        changed -> BigInt,
        finished_at -> Nullable<Timestamptz>,
        cancelled_by -> Nullable<Text>,
        problem -> Nullable<Text>,
    }
}

diesel::table! {
    jobs.history (id) {
        id -> BigInt,
        at -> Timestamptz,
        minutes -> SmallInt,
        batch -> Nullable<Uuid>,
        queue -> Text,
        kind -> Text,
        completed -> BigInt,
        retried -> BigInt,
        discarded -> BigInt,
        cancelled -> BigInt,
        snoozed -> BigInt,
        waits -> Array<Integer>,
        runs -> Array<Integer>,
        wait_seconds -> Double,
        run_seconds -> Double,
    }
}

diesel::table! {
    jobs.sample (only_row) {
        only_row -> Bool,
        at -> Nullable<Timestamptz>,
        next_at -> Timestamptz,
        resting -> Nullable<Text>,
        took_seconds -> Double,
        counts -> Json,
    }
}

diesel::table! {
    jobs.dead_letter (number) {
        number -> BigInt,
        id -> BigInt,
        kind -> Text,
        queue -> Text,
        reason -> Text,
        at -> Timestamptz,
    }
}

diesel::table! {
    jobs.schema_migration (version) {
        version -> Integer,
        oldest_program -> Nullable<Integer>,
    }
}

diesel::allow_tables_to_appear_in_same_query!(worker, installation, running);

crate::job_view!(postgres);
