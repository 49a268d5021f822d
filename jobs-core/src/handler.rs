//! Registrations of handlers, with the types of jobs erased. The executor calls handlers through them.

use std::fmt;
use std::future::Future;

use futures_util::future::BoxFuture;

use crate::any_connection::AnyConnection;
use crate::batch_handler::BatchHandler;
use crate::context::JobContext;
use crate::discarded::OnDiscarded;
use crate::error::JobError;
use crate::job::Job;
use crate::job_options::JobOptions;
use crate::outcome::Handled;
use crate::schedule::ScheduleSpec;
use crate::states::TypeKey;

/// A handler, as a function pointer, because registrations are constants.
/// Internal, and exhaustive, so that no code of ours misses a variant.
#[derive(Clone, Copy)]
pub enum Handler {
    /// An `async fn`, run on the runtime.
    Async(fn(JobContext) -> BoxFuture<'static, Handled>),
    /// A plain `fn`, run on a thread for handlers.
    Blocking(fn(JobContext) -> Handled),
    /// An `async fn` that takes the connection. It runs inside the transaction that finishes the job.
    AsyncTransactional(for<'c> fn(AnyConnection<'c>, JobContext) -> BoxFuture<'c, Handled>),
    /// A plain `fn` that takes the connection. It runs inside the transaction that finishes the job.
    BlockingTransactional(fn(AnyConnection<'_>, JobContext) -> Handled),
    /// A function that takes rows and no connection. The rows are loaded before it is called.
    WithRows(&'static RowHandler),
    /// A function that takes several jobs at once.
    Batch(&'static BatchHandler),
}

/// A handler that takes rows and no connection.
#[derive(Clone, Copy)]
pub struct RowHandler {
    /// The types of connections through which all rows can be loaded.
    pub connections: fn() -> Vec<TypeKey>,
    /// How many rows it takes.
    pub rows: usize,
    /// Loads the rows through a connection of one of these types. On a sync connection the future is ready at once. If
    /// it returns `Err`, the attempt ends with this result and the handler is not called.
    pub load: for<'c> fn(AnyConnection<'c>, JobContext) -> BoxFuture<'c, Result<LoadedHandler, Handled>>,
}

/// A handler whose rows are loaded. It does not use the connection any more.
/// Internal, and exhaustive, so that no code of ours misses a variant.
pub enum LoadedHandler {
    /// The future of an `async fn`, run on the runtime.
    Async(BoxFuture<'static, Handled>),
    /// A plain `fn`, run on a thread for handlers.
    Blocking(Box<dyn FnOnce() -> Handled + Send>),
}

impl fmt::Debug for Handler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Async(_) => "Async",
            Self::Blocking(_) => "Blocking",
            Self::AsyncTransactional(_) => "AsyncTransactional",
            Self::BlockingTransactional(_) => "BlockingTransactional",
            Self::WithRows(_) => "WithRows",
            Self::Batch(_) => "Batch",
        })
    }
}

/// The handler of a type with `#[derive(Job)]`. A type with the option `blocking`, `connection` or both in `#[job(..)]`
/// implements [`HandleBlocking`], [`HandleIn`] or [`HandleBlockingIn`] instead.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no handler",
    label = "needs `impl Handle for {Self}`",
    note = "write `impl Handle for {Self} {{ async fn handle(self, ctx: JobContext) -> Handled {{ .. }} }}`",
    note = "these names are in `diesel_jobs::handler`: `use diesel_jobs::handler::{{Handle, Handled}};`"
)]
pub trait Handle: Job {
    /// Runs one attempt.
    fn handle(self, ctx: JobContext) -> impl Future<Output = Handled> + Send;
}

/// The handler of a type with `#[job(blocking = true)]`: a plain function, which may block its thread.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no handler that may block",
    label = "needs `impl HandleBlocking for {Self}`",
    note = "write `impl HandleBlocking for {Self} {{ fn handle(self, ctx: JobContext) -> Handled {{ .. }} }}`, or leave `blocking` out",
    note = "these names are in `diesel_jobs::handler`: `use diesel_jobs::handler::{{HandleBlocking, Handled}};`"
)]
pub trait HandleBlocking: Job {
    /// Runs one attempt.
    fn handle(self, ctx: JobContext) -> Handled;
}

/// The handler of a type with `#[job(connection = C)]`. It runs inside the transaction that finishes the job, so that
/// its writes and the completion commit together.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no handler that takes a `{C}`",
    label = "needs `impl HandleIn<{C}> for {Self}`",
    note = "write `impl HandleIn<{C}> for {Self} {{ async fn handle(self, conn: &mut {C}, ctx: JobContext) -> Handled {{ .. }} }}`",
    note = "these names are in `diesel_jobs::handler`: `use diesel_jobs::handler::{{HandleIn, Handled}};`"
)]
pub trait HandleIn<C>: Job {
    /// Runs one attempt.
    fn handle(self, conn: &mut C, ctx: JobContext) -> impl Future<Output = Handled> + Send;
}

/// The handler of a type with `#[job(blocking = true, connection = C)]`: a plain function, which may block its thread
/// and runs inside the transaction that finishes the job.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no handler that takes a `{C}` and may block",
    label = "needs `impl HandleBlockingIn<{C}> for {Self}`",
    note = "write `impl HandleBlockingIn<{C}> for {Self} {{ fn handle(self, conn: &mut {C}, ctx: JobContext) -> Handled {{ .. }} }}`",
    note = "these names are in `diesel_jobs::handler`: `use diesel_jobs::handler::{{HandleBlockingIn, Handled}};`"
)]
pub trait HandleBlockingIn<C>: Job {
    /// Runs one attempt.
    fn handle(self, conn: &mut C, ctx: JobContext) -> Handled;
}

/// What a worker knows about a kind of job. The macros generate it.
#[derive(Clone, Copy, Debug)]
pub struct Registration {
    /// The kind.
    pub kind: &'static str,
    /// The path of the type.
    pub type_name: &'static str,
    /// The place of the type in the source code, as `file:line`.
    pub location: &'static str,
    /// The options of the kind.
    pub options: JobOptions,
    /// The handler.
    pub handler: Handler,
    /// The schedule, if the kind has one.
    pub schedule: Option<ScheduleSpec>,
    /// The types of the handler's `State<T>` parameters.
    pub states: &'static [fn() -> TypeKey],
    /// The type of the connection that a transactional handler takes.
    pub connection: Option<fn() -> TypeKey>,
    /// Whether the handler could read the arguments of this job.
    pub decodes: fn(&JobContext) -> Result<(), JobError>,
    /// The version of the arguments, from 1.
    pub version: u16,
    /// The kinds of earlier versions whose stored jobs this handler also runs, oldest first.
    pub earlier: &'static [&'static str],
    /// For each alias, the kinds under which its jobs are stored, in the order of the versions: one for each of
    /// [`earlier`](Self::earlier), and then that of the current version.
    pub aliases: &'static [&'static [&'static str]],
    /// Creates the job that is enqueued when a job of this kind is discarded.
    pub on_discarded: Option<OnDiscarded>,
}

impl Registration {
    /// All kinds whose stored jobs the handler runs: its own, those of earlier versions, and those of aliases.
    pub fn kinds(&self) -> impl Iterator<Item = &'static str> {
        let of_aliases = self.aliases.iter().flat_map(|kinds| kinds.iter());
        [self.kind].into_iter().chain(self.earlier.iter().chain(of_aliases).copied())
    }
}

/// A job type with a handler. The macros implement it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no handler",
    note = "`#[job]` on a function and `#[derive(Job)]` with `impl Handle` (or `HandleBlocking`, `HandleIn`, `HandleBlockingIn`) make one"
)]
pub trait Registered: Job {
    /// The registration.
    const REGISTRATION: Registration;

    /// Decodes the arguments of the running job. Arguments of an earlier version are upgraded.
    #[doc(hidden)]
    fn decode(ctx: &JobContext) -> Result<Self, JobError> {
        ctx.decode()
    }
}

inventory::collect!(Registration);
