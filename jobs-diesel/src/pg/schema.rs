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
        lease -> Integer,
        worker -> Uuid,
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
        flags -> Integer,
        paused -> Bool,
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

diesel::allow_tables_to_appear_in_same_query!(worker, installation);

crate::job_view!(postgres);
