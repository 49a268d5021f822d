//! Handlers without their types: what a registration holds and what the executor calls.

use std::any::Any;
use std::fmt;
use std::future::Future;

use futures_util::future::BoxFuture;

use crate::context::{JobContext, TypeKey};
use crate::job::Job;
use crate::job_options::JobOptions;
use crate::outcome::Handled;
use crate::schedule::ScheduleSpec;

/// A database connection whose type only the storage and the handler know.
pub type AnyConnection<'c> = &'c mut (dyn Any + Send);

/// A handler of any shape. Plain function pointers: registrations are constants.
#[derive(Clone, Copy)]
pub enum Handler {
    /// An `async fn`, run on the runtime.
    Async(fn(JobContext) -> BoxFuture<'static, Handled>),
    /// A plain `fn`, run on the blocking pool.
    Blocking(fn(JobContext) -> Handled),
    /// An `async fn` that asks for the connection: runs inside the transaction that finishes the job.
    AsyncTransactional(for<'c> fn(AnyConnection<'c>, JobContext) -> BoxFuture<'c, Handled>),
    /// A plain `fn` that asks for the connection.
    BlockingTransactional(fn(AnyConnection<'_>, JobContext) -> Handled),
}

impl fmt::Debug for Handler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Async(_) => "Async",
            Self::Blocking(_) => "Blocking",
            Self::AsyncTransactional(_) => "AsyncTransactional",
            Self::BlockingTransactional(_) => "BlockingTransactional",
        })
    }
}

/// The long form of a job: a struct with `#[derive(Job)]` and this. Jobs that block or want the transaction's connection say so in
/// `#[job(..)]`, and have [`HandleBlocking`], [`HandleIn`] or [`HandleBlockingIn`] instead.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no handler",
    label = "needs `impl Handle for {Self}`",
    note = "write `impl Handle for {Self} {{ async fn handle(self, ctx: JobContext) -> Handled {{ .. }} }}`"
)]
pub trait Handle: Job {
    /// Runs one attempt.
    fn handle(self, ctx: JobContext) -> impl Future<Output = Handled> + Send;
}

/// A job with `#[job(blocking = true)]`: its handler is a plain function, which may block its thread.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no handler that may block",
    label = "needs `impl HandleBlocking for {Self}`",
    note = "write `impl HandleBlocking for {Self} {{ fn handle(self, ctx: JobContext) -> Handled {{ .. }} }}`, or leave `blocking` out"
)]
pub trait HandleBlocking: Job {
    /// Runs one attempt.
    fn handle(self, ctx: JobContext) -> Handled;
}

/// A job with `#[job(connection = C)]`: its handler runs inside the transaction that finishes the job.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no handler that takes a `{C}`",
    label = "needs `impl HandleIn<{C}> for {Self}`",
    note = "write `impl HandleIn<{C}> for {Self} {{ async fn handle(self, conn: &mut {C}, ctx: JobContext) -> Handled {{ .. }} }}`"
)]
pub trait HandleIn<C>: Job {
    /// Runs one attempt.
    fn handle(self, conn: &mut C, ctx: JobContext) -> impl Future<Output = Handled> + Send;
}

/// A job with `#[job(blocking = true, connection = C)]`: both.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no handler that takes a `{C}` and may block",
    label = "needs `impl HandleBlockingIn<{C}> for {Self}`",
    note = "write `impl HandleBlockingIn<{C}> for {Self} {{ fn handle(self, conn: &mut {C}, ctx: JobContext) -> Handled {{ .. }} }}`"
)]
pub trait HandleBlockingIn<C>: Job {
    /// Runs one attempt.
    fn handle(self, conn: &mut C, ctx: JobContext) -> Handled;
}

/// Everything a worker knows about a kind of job. Made by the macros.
#[derive(Clone, Copy, Debug)]
pub struct Registration {
    /// The kind.
    pub kind: &'static str,
    /// The path of the type.
    pub type_name: &'static str,
    /// Where it was written, `file:line`.
    pub location: &'static str,
    /// The kind's defaults.
    pub options: JobOptions,
    /// What runs it.
    pub handler: Handler,
    /// When it runs by itself, if it does.
    pub schedule: Option<ScheduleSpec>,
    /// The `State<T>`s it takes.
    pub states: &'static [fn() -> TypeKey],
    /// The connection it asks for, if it is transactional.
    pub connection: Option<fn() -> TypeKey>,
}

/// A job type that knows its registration. Implemented by the macros.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no handler",
    note = "`#[job]` on a function and `#[derive(Job)]` with `impl Handle` (or `HandleBlocking`, `HandleIn`, `HandleBlockingIn`) make one"
)]
pub trait Registered: Job {
    /// The registration.
    const REGISTRATION: Registration;
}

inventory::collect!(Registration);
