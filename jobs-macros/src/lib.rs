//! The macros of `diesel-jobs`: `#[job]` and `#[derive(Job)]`. Do not depend on this crate: depend on `diesel-jobs`,
//! which re-exports both. The generated code refers to items by paths of that crate.
//!
//! The expansion has four steps: `attr` parses the options, `ast` parses the item, `validate` checks both together, and
//! `expand` generates the code. After an error, `fallback` generates a stub instead, so that the compiler reports no
//! consequential errors.

mod arg;
mod ast;
mod attr;
mod cron;
mod cron_problem;
mod cron_ticks;
mod duration;
mod errors;
mod every;
mod expand;
mod fallback;
mod fields;
#[cfg(test)]
mod flow_control_tests;
mod krate;
mod names;
mod nearest;
mod options;
mod place;
mod rules;
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
/// The function itself is unchanged, so you can still call and test it directly. Beside it, the macro generates a
/// struct, named after the function in UpperCamelCase. The struct takes over the function's visibility, its
/// documentation and its `cfg`, `allow` and `deprecated` attributes. It has one field per argument and a constructor
/// `new(..)`, and implements `Job` and serde's `Serialize` and `Deserialize`. It also implements `Debug`, `Clone` and
/// `PartialEq` if the types of all arguments do. A function without arguments becomes a unit struct. Every worker whose
/// program links the crate can run the job.
///
/// # Parameters
///
/// | parameter | what the handler receives |
/// |---|---|
/// | `State(x): State<T>` | a clone of the `T` that the worker was given with `.state(..)`, or that a layer added |
/// | `ctx: &JobContext` or `ctx: JobContext` | the context of the running job |
/// | `conn: &mut C` | a connection, inside the transaction that finishes the job, so that the handler's writes and the completion commit together. `C` is `AsyncPgConnection` in an `async fn`, and `PgConnection` or `SqliteConnection` in a plain `fn`. At most one parameter may be a connection |
/// | `x: &str`, `x: &[T]` | an argument, stored as a `String` or `Vec<T>` |
/// | `x: Ref<T>`, `x: Option<Ref<T>>` | a row of one of your tables. The job stores the primary key, and the worker loads the row before it calls the handler. `T` derives Diesel's `Identifiable`, `Queryable` and `Selectable` |
/// | `x: Take<T>` | a row that no other attempt holds, locked until the handler's transaction ends. `#[arg(from = path)]` names a function that returns the query for free rows; without it, every row of the table counts as free |
/// | `x: T` | an argument. `T` implements `Serialize` and `Deserialize` and owns its data |
///
/// `#[arg(secret)]` before an argument hides its value: logs, errors, `worker show` and the struct's `Debug` output
/// contain `[redacted]` in its place. The database still stores the value in plain text.
///
/// `#[arg(gone = "..")]` before a `Ref<T>` sets what happens to the job if the row no longer exists: `"cancel"` (the
/// default), `"discard"` or `"retry"`. An `Option<Ref<T>>` is `None` in that case. In a handler that takes a
/// connection, `#[arg(lock)]` locks the row with `FOR NO KEY UPDATE` until the end of the transaction.
///
/// `#[arg(lock = "..")]` before a `Take<T>` sets what happens if the first free row is locked by another transaction:
/// `"skip"` (the default) takes another row, `"wait"` waits for the lock, and `"nowait"` ends the run with a conflict.
/// If there is no free row, the job snoozes for 5 s.
///
/// An `async fn` runs on the Tokio runtime, and its future must be `Send`. A plain `fn` runs on a thread for handlers.
///
/// # Return types
///
/// `()`, `Outcome` or `Result<T, E>`, where `E` is a `std::error::Error + Send + Sync + 'static`, `anyhow::Error`,
/// `Box<dyn Error + Send + Sync>` or `JobError`. `T` is `()`, `Outcome`, or any other type that implements `Serialize`.
/// A value of such another type is the output of the job, which is stored as JSON of at most 256 KiB. The struct then
/// has a function `output` that reads it:
///
/// ```text
/// #[job]
/// async fn build_report(year: i32) -> Result<Report, ReportError> { .. }
///
/// let report: Option<Report> = BuildReport::output(&mut conn, id).await?;
/// ```
///
/// To call `output(..)`, the type must also implement `Deserialize`. If the return type borrows from an argument, the
/// struct has no function `output`: call `diesel_jobs::output` and name the type.
///
/// # Options
///
/// | option | value | default |
/// |---|---|---|
/// | `name` | the name of the struct | the function's name in UpperCamelCase |
/// | `kind` | the name that is stored with each job, 1 to 200 bytes. If you change it, add the old name to `aliases` | the function's name |
/// | `aliases` | the names that the kind had before, the oldest first: `aliases("send_welcome")`. Workers also run jobs that are stored under these names. The unique keys, the limits without a name and the schedule of the job keep the oldest name, so that programs with the old and the new name share them | none |
/// | `queue` | the name of the queue, 1 to 200 bytes | `"default"` |
/// | `priority` | -32768 to 32767. Jobs with a higher priority run first | `0` |
/// | `max_attempts` | 1 to 32767, including the first attempt | `25` |
/// | `timeout` | a duration: how long one attempt may take | the worker's timeout, which is unlimited unless it is set |
/// | `backoff` | `"exponential(BASE, CAP)"` (full jitter), `"fixed(WAIT)"`, `"fixed(WAIT, jitter = TIME)"` (a random part of the time is added to each wait; without `jitter`, jobs that failed together retry together), or the path of a `fn(attempt: u16) -> Duration` | `"exponential(2s, 1h)"` |
/// | `retain` | how long completed jobs stay readable: a duration, `"none"` or `"forever"` | the worker's, 24 hours |
/// | `batch` | only with `#[derive(Job)]`: `batch(max = 100, wait = "50ms", by(index))`. The type implements `HandleBatch`, whose handler receives up to 100 jobs per call. A call waits up to `wait` for a full batch; by default, it does not wait. With `by`, all jobs of a call have the same value of `index` | one job per call |
/// | `concurrency` | a limit: how many jobs may run at once across all workers. `concurrency(limit = 5, by(account_id))` counts the jobs of each account separately. `concurrency("stripe", limit = 5)` names the limit, so that several kinds can share it. A job that finds the limit full waits; with `on_full = "discard"` it is discarded instead, and with `on_full = "cancel_oldest"` the oldest job with its key is cancelled to make room | no limit |
/// | `sequence` | the jobs run one at a time, in the order of their ids. `sequence(by(order_id))` makes one sequence per order. A discarded job halts its sequence; with `on_discard = "skip"` the next job starts instead | no sequence |
/// | `rate` | how many jobs may start per period across all workers: `rate(limit = 100, per = "1m", burst = 10, by(account_id))`. Each start spends a token, and a job that finds none waits; with `on_full = "discard"` it is discarded instead. `rate("stripe", ..)` names the rate, so that several kinds can share it. `burst` is how many jobs may start at once after a quiet time; by default, as many as the rate allows in a tenth of a second, but at least 1 | no rate |
/// | `fair` | together with one `concurrency` and no other rule: `concurrency(limit = 10), fair(by(tenant_id))`. The tenants whose jobs wait for the limit take turns, so that a tenant with many jobs does not delay the others | no tenants |
/// | `unique` | at most one job per key that has not ended: `unique(by(user_id))`. Without `by`, all arguments form the key. `within = "5m"` bounds how long a job keeps its key, counted from its enqueue, and `until = "started"` frees the key when the job is first claimed. `on_conflict` is `"keep"` (the default), `"replace(args, run_at, priority)"`, `"run_again"` (if the existing job is running, the new one is inserted and starts after it) or `"error"` | jobs are not unique |
/// | `debounce` | `debounce(quiet = "5s", max = "1m", by(doc_id))` merges repeated enqueues for a key into one job with the newest arguments. The job is due once nothing has been enqueued for 5 seconds, and at the latest a minute after the first enqueue | no debounce |
/// | `expires` | a duration: a job is cancelled if its first attempt has not started within this time after the job became due | jobs do not expire |
/// | `on_discarded` | a job type with one argument of type `Discarded`, such as `AlertOps`. When a job of this kind is discarded, the job that `AlertOps::new(discarded)` returns is enqueued | none |
/// | `cron` | the schedule of the job, as a cron expression of five fields, six with seconds first, or seven with a year last. A job with a schedule has no arguments | none |
/// | `every` | instead of `cron`, an interval from `"1s"` to `"366d"`, in whole seconds: `"90m"`. The job runs at the multiples of the interval since 1970-01-01 00:00 UTC | none |
/// | `timezone` | the time zone of `cron`, as an IANA name | `"UTC"` |
/// | `catch_up` | what happens to missed ticks of `cron` or `every`: `"skip"` drops them, `"last"` runs the latest one, and `"all"` runs all of them | `"skip"` |
/// | `version` | 1 to 9999: the version of the arguments. Jobs of version 2 are stored under the kind `<kind>.v2`, so that programs that know only version 1 leave them alone | `1` |
/// | `upgrade` | the functions that convert the arguments of an earlier version to those of the next: a path, or a list such as `[from_v1, from_v2]`, oldest first. The last function returns the job. The handler then also runs stored jobs of these versions | none |
///
/// A duration is a whole number with a unit (`ms`, `s`, `m`, `h` or `d`), or several of them: `"500ms"`, `"30s"`, `"1h
/// 30m"`, `"7d"`.
///
/// # Errors
///
/// The macro reports mistakes at compile time, at the place in the code where you made them. In the options, these are,
/// for example, unknown or repeated options, invalid durations, cron expressions that never fire, and unknown time
/// zones. In the function, they are generics, patterns, `self`, borrowed arguments, arguments that serde cannot store,
/// and futures that are not `Send`.
#[proc_macro_attribute]
pub fn job(options: TokenStream, item: TokenStream) -> TokenStream {
    expand::job(options.into(), item.into()).into()
}

/// Turns a function that takes a connection into a test (feature `testing`).
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
/// The connection is a `PgConnection` or a `SqliteConnection`. An `async fn` may also take an `AsyncPgConnection` or a
/// `SyncConnectionWrapper`. The test runs inside a transaction on this connection, which is rolled back at the end.
///
/// On SQLite, each test has its own in-memory database. On PostgreSQL, tests with the same migrations share a database
/// on the server that `TEST_DATABASE_URL` (or else `DATABASE_URL`) names, in the environment or in the nearest file
/// `.env`, in the directory of the package or above. Its role must be allowed to create databases. The first test
/// creates this database under a name that begins with `jobs_test_shared_`, and it is not dropped afterwards. An `async
/// fn` runs on a single-threaded Tokio runtime.
///
/// | option | value | default |
/// |---|---|---|
/// | `migrations` | a directory of Diesel migrations that create the application's tables, relative to the package. The migrations of `diesel-jobs` need not be among them | the package's directory `migrations`, if it exists |
/// | `setup` | a function that is called with the connection before the test, inside its transaction. It returns nothing or a `Result`, and must be async if the test is | none |
#[proc_macro_attribute]
pub fn test(options: TokenStream, item: TokenStream) -> TokenStream {
    test::expand(options.into(), item.into()).into()
}

/// Expands to `left == right`, with compile errors reported at `right`. `assert_enqueued!` uses it, because the errors
/// of an `==` inside a `macro_rules!` macro point to the whole call.
#[doc(hidden)]
#[proc_macro]
pub fn equal(operands: TokenStream) -> TokenStream {
    test::equal(operands.into()).into()
}

/// Makes a struct or an enum a job type. Use it instead of [`macro@job`] if the type needs attributes of its own, or if
/// its handler takes batches.
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
/// You implement `Handle` and serde's `Serialize` and `Deserialize` for the type. The options are those of
/// [`macro@job`] except `name`, and two more, which select the trait of the handler:
///
/// | option | value | trait to implement |
/// |---|---|---|
/// | `blocking` | `true`: the handler is a plain function, which may block its thread | `HandleBlocking` |
/// | `connection` | a connection type `C`: the handler takes a connection and runs inside the transaction that finishes the job | `HandleIn<C>` |
/// | both | | `HandleBlockingIn<C>` |
///
/// With the option `batch`, the trait is `HandleBatch`, `HandleBatchIn<C>` with `connection`, or
/// `HandleBlockingBatchIn<C>` with both. `blocking` without `connection` cannot be combined with `batch`.
///
/// `#[arg(secret)]` before a field of a struct hides its value, as it does before an argument of [`macro@job`], also
/// under the names of `#[serde(alias = "..")]`. The macro rejects it on fields that serde renames.
///
/// The default of `kind` is the type's name in snake_case. A type with `cron` or `every` must have no fields. Generic
/// types and unions are not supported.
#[proc_macro_derive(Job, attributes(job, arg))]
pub fn derive_job(item: TokenStream) -> TokenStream {
    expand::derive(item.into()).into()
}
