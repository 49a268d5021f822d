//! The macro that declares the view of all jobs in an application's own crate.

/// Declares the view of all jobs as a table of your own crate, so that Diesel joins it with your tables.
///
/// The argument is the database: `postgres` declares the view `jobs.job`, `sqlite` the view `jobs_job_view`. Both
/// declare a module `job` with the same columns. The column `state` holds the names of
/// [`JobState`](diesel_jobs_core::JobState). On SQLite, times are microseconds since 1970.
///
/// ```
/// mod schema {
///     diesel::table! {
///         invoice (id) { id -> BigInt, job_id -> BigInt }
///     }
/// # macro_rules! job_view { ($($t:tt)*) => { diesel_jobs_storage::job_view!($($t)*); } }
/// # #[cfg(feature = "postgres")]
///     job_view!(postgres); // diesel_jobs::rows::job_view!
/// # #[cfg(not(feature = "postgres"))]
/// # job_view!(sqlite);
///
///     diesel::joinable!(invoice -> job (job_id));
///     diesel::allow_tables_to_appear_in_same_query!(invoice, job);
/// }
///
/// # use diesel::prelude::*;
/// use schema::{invoice, job};
/// let states = invoice::table.inner_join(job::table).select((invoice::id, job::state, job::last_error));
/// ```
#[macro_export]
macro_rules! job_view {
    (postgres) => {
        $crate::job_view!(@ { jobs.job } time: Timestamptz, worker: Uuid, tags: { Array<Text> }, args: Json);
    };
    (sqlite) => {
        $crate::job_view!(@ { #[sql_name = "jobs_job_view"] job } time: BigInt, worker: Text, tags: { Text }, args: Text);
    };
    (@ { $($name:tt)+ } time: $time:ident, worker: $worker:ident, tags: { $($tags:tt)+ }, args: $args:ident) => {
        diesel::table! {
            /// All jobs, in every state.
            $($name)+ (id) {
                id -> BigInt,
                kind -> Text,
                queue -> Text,
                state -> Text,
                priority -> SmallInt,
                attempt -> Integer,
                max_attempts -> Integer,
                crashes -> Integer,
                run_at -> $time,
                enqueued_at -> $time,
                claimed_at -> Nullable<$time>,
                finished_at -> Nullable<$time>,
                worker -> Nullable<$worker>,
                lease -> Integer,
                tags -> $($tags)+,
                args -> $args,
                last_error -> Nullable<Text>,
                flags -> Integer,
                output -> Nullable<$args>,
                output_note -> Nullable<Text>,
                progress_done -> Nullable<BigInt>,
                progress_total -> Nullable<BigInt>,
                progress_message -> Nullable<Text>,
                progress_at -> Nullable<$time>,
                traceparent -> Nullable<Text>,
                rules -> Nullable<$args>,
            }
        }
    };
}
