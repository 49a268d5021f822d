//! The macros of `diesel-jobs`: `#[job]` and `#[derive(Job)]`. Do not depend on this crate: depend on `diesel-jobs`,
//! which re-exports both. The generated code uses its paths.
//!
//! The steps: `attr` parses the options and `ast` the item; `validate` checks them together; `expand` generates the
//! code. After an error, `fallback` generates a stub instead, so that the compiler reports no consequential errors.

mod arg;
mod ast;
mod attr;
mod cron;
mod cron_problem;
mod duration;
mod errors;
mod expand;
mod fallback;
mod fields;
#[cfg(test)]
mod flow_control_tests;
mod krate;
mod limit;
mod names;
mod nearest;
mod options;
mod place;
mod test;
#[cfg(test)]
mod tests;
mod types;
mod validate;
mod version;

use proc_macro::TokenStream;

/// Turns a function into a job.
///
/// ```text
/// /// Sends the welcome mail.
/// #[job(queue = "mail", max_attempts = 10, timeout = "30s")]
/// pub async fn send_welcome(user_id: i64, template: String, State(mailer): State<Mailer>) -> Result<(), MailError> { .. }
///
/// SendWelcome { user_id, template: "v2".into() }.enqueue(&mut conn).await?;
/// SendWelcome::new(user_id, "reminder").delay(Duration::from_secs(3600)).enqueue(&mut conn).await?;
/// ```
///
/// The function itself is unchanged: it can be called and tested. The macro adds a struct with the function's name in
/// UpperCamelCase. The struct has the function's visibility, documentation, `cfg`, `allow` and `deprecated` attributes,
/// one field per argument, `new(..)`, serde's `Serialize` and `Deserialize`, and `Job`. It has `Debug`, `Clone` and
/// `PartialEq` if all arguments have them. For a function without arguments it is a unit struct. The job is registered
/// with every worker whose program links the crate.
///
/// # Parameters
///
/// | parameter | what the job gets |
/// |---|---|
/// | `State(x): State<T>` | the `T` given to the worker with `.state(..)`, or added by a layer, cloned |
/// | `ctx: &JobContext` or `ctx: JobContext` | the context of the running job |
/// | `conn: &mut C` | the connection, inside the transaction that finishes the job, so the handler's writes and the completion commit together. At most one; `AsyncPgConnection` in an `async fn`, `PgConnection` or `SqliteConnection` in a plain `fn` |
/// | `x: &str`, `x: &[T]` | an argument, stored as `String`, `Vec<T>` |
/// | `x: Ref<T>`, `x: Option<Ref<T>>` | a row: the job stores its primary key, and the worker loads the row before it calls the handler; `T` derives Diesel's `Identifiable`, `Queryable` and `Selectable` |
/// | `x: Take<T>` | a row that no other attempt has, locked for the handler's transaction; `#[arg(from = path)]` names a function that returns the query of the free rows, otherwise any row of the table is free |
/// | `x: T` | an argument; `T` needs `Serialize` and `Deserialize` and owns its data |
///
/// `#[arg(secret)]` before an argument hides its value: logs, errors, `worker show` and the struct's `Debug` contain
/// `[redacted]` instead. The value is stored unchanged.
///
/// `#[arg(gone = "..")]` before a `Ref<T>` says what happens to the job if the row no longer exists: `"cancel"` (the
/// default), `"discard"` or `"retry"`. An `Option<Ref<T>>` is then `None`. In a handler that takes a connection,
/// `#[arg(lock)]` locks the row `FOR NO KEY UPDATE` until the end of the transaction.
///
/// `#[arg(lock = "..")]` before a `Take<T>` says what happens if the first free row is locked. `"skip"`, the default,
/// takes another one. `"wait"` waits for the lock. `"nowait"` ends the run with a conflict. If there is no free row,
/// the job snoozes for 5 s.
///
/// An `async fn` runs on the runtime, and its future must be `Send`. A plain `fn` runs on the blocking pool.
///
/// # Return types
///
/// `()`, `Outcome` or `Result<T, E>`, where `E` is a `std::error::Error + Send + Sync + 'static`, `anyhow::Error`,
/// `Box<dyn Error + Send + Sync>` or `JobError`. `T` is `()`, `Outcome`, or any other type that implements `Serialize`.
/// Such a value is the output of the job and is stored as JSON, at most 256 KiB. The struct then has a function that
/// reads it:
///
/// ```text
/// #[job]
/// async fn build_report(year: i32) -> Result<Report, ReportError> { .. }
///
/// let report: Option<Report> = BuildReport::output(&mut conn, id).await?;
/// ```
///
/// To call `output(..)`, the type must implement `Deserialize`. If the return type borrows from an argument, the struct
/// has no function `output`: use `diesel_jobs::output` and name the type.
///
/// # Options
///
/// | option | value | default |
/// |---|---|---|
/// | `name` | the struct's name | the function's, in UpperCamelCase |
/// | `kind` | the name that is stored with each job, 1 to 200 bytes; after a change, no worker of the new program runs the stored jobs | the function's name |
/// | `queue` | 1 to 200 bytes | `"default"` |
/// | `priority` | -32768 to 32767; higher runs first | `0` |
/// | `max_attempts` | 1 to 32767, the first attempt included | `25` |
/// | `timeout` | a duration: how long one attempt may take | the worker's `--timeout`; without it, no limit |
/// | `backoff` | `"exponential(BASE, CAP)"` (full jitter), `"fixed(WAIT)"`, or the path of a `fn(attempt: u16) -> Duration` | `"exponential(2s, 1h)"` |
/// | `retain` | how long completed jobs stay readable: a duration, `"none"` or `"forever"` | the worker's, 24 hours |
/// | `batch` | only for types: `batch(max = 100, wait = "50ms", by(index))`. The handler is `HandleBatch` and takes up to 100 jobs at once. A call waits up to `wait` for a full batch (default: not at all). All jobs of a call have the same value of `index` | one job |
/// | `concurrency` | the limit: how many jobs run at once over all workers. `concurrency(limit = 5, by(account_id))` counts the jobs of each account separately. `concurrency("stripe", limit = 5)` names a limit that kinds share. A job that finds it full waits; with `on_full = "discard"` it is discarded, and with `on_full = "cancel_oldest"` the oldest job of its key is cancelled | no limit |
/// | `sequence` | the jobs run one after the other, in the order of their ids: `sequence(by(order_id))` for each order. A discarded job halts the sequence; with `on_discard = "skip"` the next job starts | no sequence |
/// | `rate` | how many jobs start in a period, over all workers: `rate(limit = 100, per = "1m", burst = 10, by(account_id))`. A job waits for a token. `rate("stripe", ..)` names a rate that kinds share. `on_full = "discard"` discards a job that finds no token. Default of `burst`: the starts of a tenth of a second, and at least 1 | no rate |
/// | `fair` | beside one `concurrency`: the tenants that wait for the limit take turns, so that one with many jobs does not delay the others: `concurrency(limit = 10), fair(by(tenant_id))` | no tenants |
/// | `unique` | at most one job with the same key that has not ended: `unique(by(user_id))`, with `within = "5m"`, `until = "started"`, and `on_conflict` = `"keep"`, `"replace(args, run_at, priority)"`, `"run_again"` (while the job runs, one more is inserted that starts after it) or `"error"`. Without `by`, all arguments are the key | jobs are not unique |
/// | `debounce` | `debounce(quiet = "5s", max = "1m", by(doc_id))`: one job with the newest arguments. It is due when nothing was enqueued for 5 seconds, and at most a minute after the first enqueue | none |
/// | `expires` | a duration: a job is cancelled if its first attempt has not started within this time after it is due | jobs do not expire |
/// | `on_discarded` | a job type, such as `AlertOps`: its `new(discarded: Discarded)` makes the job that is enqueued when a job of this kind is discarded | none |
/// | `cron` | five fields, six with seconds first, or seven with a year: the schedule of the job; a job with a schedule has no arguments | none |
/// | `timezone` | the IANA name of the time zone of `cron` | `"UTC"` |
/// | `catch_up` | the rule for missed ticks: `"skip"` drops them, `"last"` runs the latest one, `"all"` runs all | `"skip"` |
/// | `version` | 1 to 9999: the version of the arguments. Jobs of version 2 are stored under the kind `<kind>.v2`, so programs of version 1 leave them to others | `1` |
/// | `upgrade` | the functions that turn arguments of an earlier version into those of the next one: a path, or `[from_v1, from_v2]`, the oldest first. The last one returns the job. Stored jobs of these versions run, too | none |
///
/// A duration is a whole number with a unit (`ms`, `s`, `m`, `h`, `d`), or several: `"500ms"`, `"30s"`, `"1h 30m"`,
/// `"7d"`.
///
/// # Errors
///
/// The macro reports mistakes at compile time, at their place in the code. Examples in the options are unknown or
/// repeated options, bad durations, cron expressions that never fire, and unknown time zones. Examples in the function
/// are generics, patterns, `self`, borrowed arguments, arguments that serde cannot store, and futures that are not
/// `Send`.
#[proc_macro_attribute]
pub fn job(options: TokenStream, item: TokenStream) -> TokenStream {
    expand::job(options.into(), item.into()).into()
}

/// Makes a test of a function that takes a connection (feature `testing`).
///
/// ```text
/// #[diesel_jobs::test]
/// fn an_order_is_charged(conn: &mut SqliteConnection) {
///     place_order(conn, 7).unwrap();
///     assert_enqueued!(conn, Charge { order_id: 7 });
/// }
///
/// #[diesel_jobs::test(migrations = "db/migrations", setup = some_users)]
/// async fn users_are_greeted(conn: &mut AsyncPgConnection) -> Result<(), BoxError> { .. }
/// ```
///
/// The connection is a `PgConnection` or a `SqliteConnection`, or for an `async fn` also an `AsyncPgConnection` or a
/// `SyncConnectionWrapper`. It is in a test transaction, which is rolled back. On SQLite each test has a database in
/// memory. On PostgreSQL the tests with the same migrations share a database on the server of `TEST_DATABASE_URL` (or
/// `DATABASE_URL`), whose role may create databases. It is created by the first test, is named `jobs_test_shared_..`
/// and stays there. An `async fn` runs on a tokio runtime of one thread.
///
/// | option | value | default |
/// |---|---|---|
/// | `migrations` | a directory of the package, in Diesel's form: the application's tables. Those of `diesel-jobs` need not be among them | the package's `migrations`, if there is such a directory |
/// | `setup` | a function that is called with the connection before the test, in its transaction. It returns nothing or a `Result`; above an `async fn` it is async, too | none |
#[proc_macro_attribute]
pub fn test(options: TokenStream, item: TokenStream) -> TokenStream {
    test::expand(options.into(), item.into()).into()
}

/// `left == right`, with the compiler's errors at `right`. For `assert_enqueued!`, because the errors of an `==` in a
/// `macro_rules!` macro are at the whole call.
#[doc(hidden)]
#[proc_macro]
pub fn equal(operands: TokenStream) -> TokenStream {
    test::equal(operands.into()).into()
}

/// Makes a struct or an enum a job type. Use it instead of [`macro@job`] for types that need their own attributes.
///
/// ```text
/// #[derive(Serialize, Deserialize, Job)]
/// #[job(queue = "mail", max_attempts = 10)]
/// struct SendWelcome { #[serde(alias = "id")] user_id: i64 }
///
/// impl Handle for SendWelcome {
///     async fn handle(self, ctx: JobContext) -> Result<Outcome, JobError> { .. }
/// }
/// ```
///
/// You implement serde's `Serialize` and `Deserialize` and `Handle` for the type. The options are those of
/// [`macro@job`] without `name`, and two more:
///
/// | option | value | the type's handler |
/// |---|---|---|
/// | `blocking` | `true`: the handler is a plain function and may block its thread | `impl HandleBlocking` |
/// | `connection` | the type of a connection: the handler runs inside the transaction that finishes the job | `impl HandleIn<C>` |
/// | both | | `impl HandleBlockingIn<C>` |
///
/// `#[arg(secret)]` stands before a field of a struct, as before an argument of [`macro@job`]. It is not for fields
/// that serde renames.
///
/// The default kind is the type's name in snake_case. A type with `cron` must have no fields. Generic types and unions
/// are refused.
#[proc_macro_derive(Job, attributes(job, arg))]
pub fn derive_job(item: TokenStream) -> TokenStream {
    expand::derive(item.into()).into()
}
