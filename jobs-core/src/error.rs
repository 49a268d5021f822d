//! The error of a handler: [`JobError`].

#[cfg(feature = "eyre")]
mod eyre;

use std::any::type_name;
use std::fmt;
use std::time::Duration;

use crate::backtraces;
pub(crate) use crate::failure::{Failure, FailureKind};

/// What follows a failed attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Backoff,
    In(Duration),
    Never,
}

/// An error of a handler that can also set what follows the failed attempt: a retry after a given time, or no retry at
/// all. Unless it does, the job is retried after its backoff, as after any other error.
///
/// ```
/// use diesel_jobs_core::{JobError, ResultExt};
/// use std::time::Duration;
///
/// fn charge(answer: Result<(), std::io::Error>) -> Result<(), JobError> {
///     // The card was revoked. Another attempt would fail, too.
///     answer.fatal()?;
///     // The bank is closed. Try again in an hour.
///     Err(JobError::msg("bank closed").retry_in(Duration::from_secs(3600)))
/// }
/// # assert!(!charge(Ok(())).unwrap_err().is_fatal());
/// ```
pub struct JobError {
    source: anyhow::Error,
    kind: FailureKind,
    next: Next,
    origin: Option<Box<Origin>>,
}

/// Where an error comes from. An error without an origin has its own backtrace.
#[derive(Default)]
struct Origin {
    /// The file, line and column of a panic.
    place: Option<String>,
    backtrace: Option<String>,
}

impl JobError {
    /// Wraps any `std::error::Error`, an `anyhow::Error` or a `Box<dyn Error + Send + Sync>`. The job is retried after
    /// its backoff, unless the wrapped error is itself a `JobError` that sets something else.
    pub fn new<M>(error: impl IntoJobError<M>) -> Self {
        error.into_job_error()
    }

    /// Creates an error from a message. The job is retried after its backoff.
    pub fn msg(message: impl fmt::Display + fmt::Debug + Send + Sync + 'static) -> Self {
        Self::of_kind(FailureKind::Error, anyhow::Error::msg(message))
    }

    /// Retries the job after `delay` instead of its backoff. The attempt counts: if it was the last one, the job is
    /// discarded.
    pub fn retry_in(mut self, delay: Duration) -> Self {
        self.next = Next::In(delay);
        self
    }

    /// Makes the failure permanent: the job is discarded, even if it has attempts left.
    pub fn fatal(mut self) -> Self {
        self.next = Next::Never;
        self
    }

    /// Whether the handler has called [`retry_in`](Self::retry_in) or [`fatal`](Self::fatal). Then the same attempt
    /// does not run again after a conflict.
    #[doc(hidden)]
    pub fn says_what_follows(&self) -> bool {
        self.next != Next::Backoff
    }

    /// The error and its causes, outermost first.
    #[doc(hidden)]
    pub fn causes(&self) -> impl Iterator<Item = &(dyn std::error::Error + 'static)> {
        self.source.chain()
    }

    /// Adds a note, which is printed before the error itself.
    #[doc(hidden)]
    pub fn noted(self, note: impl fmt::Display + fmt::Debug + Send + Sync + 'static) -> Self {
        Self { source: self.source.context(note), ..self }
    }

    /// How the attempt failed.
    pub fn kind(&self) -> FailureKind {
        self.kind
    }

    /// Whether the error is permanent, so that no further attempt follows. See [`fatal`](Self::fatal).
    pub fn is_fatal(&self) -> bool {
        self.next == Next::Never
    }

    /// The file, line and column of the panic, if the handler panicked.
    pub fn place(&self) -> Option<&str> {
        self.origin.as_ref()?.place.as_deref()
    }

    /// The backtrace from the place where the error was created or the handler panicked, up to the handler. It is
    /// captured only if the environment variable `RUST_BACKTRACE` or `RUST_LIB_BACKTRACE` is set. An error of another
    /// type than `JobError`, `anyhow::Error` or `eyre::Report` that the handler itself returns has none.
    pub fn backtrace(&self) -> Option<String> {
        match &self.origin {
            Some(origin) => origin.backtrace.clone(),
            None => backtraces::of(self.source.backtrace()),
        }
    }

    /// The time of [`retry_in`](Self::retry_in), if it was called.
    pub(crate) fn delay(&self) -> Option<Duration> {
        match self.next {
            Next::In(delay) => Some(delay),
            Next::Backoff | Next::Never => None,
        }
    }

    /// The wrapped error, if it is of this type.
    pub(crate) fn cause<E: std::error::Error + Send + Sync + 'static>(&self) -> Option<&E> {
        self.source.downcast_ref()
    }

    pub(crate) fn of_kind(kind: FailureKind, source: anyhow::Error) -> Self {
        Self { source, kind, next: Next::Backoff, origin: None }
    }

    /// The same error, which comes from this place.
    pub(crate) fn with_place(self, place: Option<String>, backtrace: Option<String>) -> Self {
        Self { origin: Some(Box::new(Origin { place, backtrace })), ..self }
    }

    /// The same error with other texts. The causes become a part of the text.
    pub(crate) fn reworded(self, reword: impl Fn(&mut String)) -> Self {
        let (mut text, place) = (format!("{:#}", self.source), self.place().map(str::to_owned));
        let mut backtrace = self.backtrace();
        reword(&mut text);
        backtrace.as_mut().map(&reword);
        Self { source: anyhow::Error::msg(text), ..self }.with_place(place, backtrace)
    }

    /// The same error for one more job that failed with it. Its causes are in its text.
    pub(crate) fn for_another_job(&self) -> Self {
        let source = anyhow::Error::msg(format!("{:#}", self.source));
        let same = Self { source, kind: self.kind, next: self.next, origin: None };
        same.with_place(self.place().map(str::to_owned), self.backtrace())
    }

    /// The error of a stored failure.
    pub(crate) fn of_failure(failure: &Failure) -> Self {
        let error = Self::of_kind(failure.kind, anyhow::Error::msg(failure.message.clone()));
        error.with_place(failure.place.clone(), failure.backtrace.clone())
    }

    /// The failure as it is stored: the error and its causes on one line.
    pub(crate) fn to_failure(&self) -> Failure {
        let failure = Failure::new(self.kind, &format!("{:#}", self.source));
        failure.with_place(self.place(), self.backtrace().as_deref())
    }
}

impl fmt::Display for JobError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.source, f)
    }
}

impl fmt::Debug for JobError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.source, f)
    }
}

impl std::error::Error for JobError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.source()
    }
}

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The errors that a handler may return. The compiler infers `M`. Without it, the implementations would overlap,
/// because a later version of `anyhow` might convert from `Box<dyn Error + Send + Sync>`.
#[diagnostic::on_unimplemented(
    message = "a job cannot fail with `{Self}`",
    note = "an error is a `std::error::Error + Send + Sync + 'static`, `anyhow::Error`, `Box<dyn Error + Send + Sync>`, `JobError`, or an \
            `eyre::Report` (feature `eyre`)"
)]
pub trait IntoJobError<M>: Sized {
    /// Converts the error. A `JobError` inside it keeps its [`retry_in`](JobError::retry_in) or
    /// [`fatal`](JobError::fatal), except inside an `anyhow::Error` that was converted to a box: such a box hides the
    /// type.
    fn into_job_error(self) -> JobError;

    /// Converts an error that a handler has returned. A backtrace that would be captured only now has no function of
    /// the handler, so it is left out.
    #[doc(hidden)]
    fn of_handler(self) -> JobError {
        self.into_job_error()
    }
}

/// Errors that `anyhow` converts.
#[derive(Debug)]
pub enum ByAnyhow {}

/// Errors in a box, which `anyhow` does not convert by `From`.
#[derive(Debug)]
pub enum Boxed {}

#[diagnostic::do_not_recommend]
impl<E: Into<anyhow::Error>> IntoJobError<ByAnyhow> for E {
    fn into_job_error(self) -> JobError {
        self.into().downcast().unwrap_or_else(|source| JobError::of_kind(FailureKind::Error, source))
    }

    fn of_handler(self) -> JobError {
        let has_one = [type_name::<anyhow::Error>(), type_name::<JobError>()].contains(&type_name::<E>());
        if has_one { self.into_job_error() } else { self.into_job_error().with_place(None, None) }
    }
}

impl IntoJobError<Boxed> for BoxError {
    fn into_job_error(self) -> JobError {
        match self.downcast::<JobError>() {
            Ok(error) => *error,
            Err(source) => JobError::of_kind(FailureKind::Error, anyhow::Error::from_boxed(source)),
        }
    }

    fn of_handler(self) -> JobError {
        if self.is::<JobError>() { self.into_job_error() } else { self.into_job_error().with_place(None, None) }
    }
}

/// Extends `Result` with methods that set what follows its error. The compiler infers `M`.
pub trait ResultExt<T, M> {
    /// Makes the error permanent, see [`JobError::fatal`].
    fn fatal(self) -> Result<T, JobError>;
    /// Retries the job after `delay`, see [`JobError::retry_in`].
    fn retry_in(self, delay: Duration) -> Result<T, JobError>;
}

impl<T, E: IntoJobError<M>, M> ResultExt<T, M> for Result<T, E> {
    fn fatal(self) -> Result<T, JobError> {
        self.map_err(|error| error.into_job_error().fatal())
    }

    fn retry_in(self, delay: Duration) -> Result<T, JobError> {
        self.map_err(|error| error.into_job_error().retry_in(delay))
    }
}

/// Implements `Debug` like `Display`. A `main` that returns a `Result` prints its error with `Debug`, and the texts of
/// these errors are written for the reader of that output.
#[doc(hidden)]
#[macro_export]
macro_rules! debug_as_display {
    ($($error:ty),+ $(,)?) => {$(
        impl ::core::fmt::Debug for $error {
            fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                ::core::fmt::Display::fmt(self, f)
            }
        }
    )+};
}

/// No Tokio runtime is running. Without one, the first future that waits for a timer, a socket or a thread would panic.
#[derive(thiserror::Error)]
#[error(
    "no tokio runtime is running here, and the worker and its database connections need one: write `#[tokio::main]` above \
     `async fn main`, or call this inside `tokio::runtime::Runtime::new()?.block_on(..)`"
)]
#[non_exhaustive]
pub struct NoRuntime;

debug_as_display!(NoRuntime);

impl NoRuntime {
    /// Returns an error if it is called outside of a Tokio runtime.
    pub fn check() -> Result<(), Self> {
        tokio::runtime::Handle::try_current().map(drop).map_err(|_| Self)
    }
}

#[cfg(test)]
#[path = "error/tests.rs"]
mod tests;
