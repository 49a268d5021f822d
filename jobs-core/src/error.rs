//! What goes wrong in a handler ([`JobError`]), and how a failure is recorded ([`Failure`]).

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The longest failure text stored, in bytes: 8 KiB.
pub const MAX_FAILURE_BYTES: usize = 8 * 1024;

/// How an attempt failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum FailureKind {
    /// The handler returned an error.
    Error,
    /// The handler panicked.
    Panic,
    /// The attempt took longer than its kind's `timeout`.
    Timeout,
    /// The stored arguments do not fit the kind's type.
    Undecodable,
    /// The worker process died with the job.
    Crash,
    /// The handler or an operator cancelled the job; the text is the reason.
    Cancelled,
}

impl FailureKind {
    /// Every kind of failure.
    pub const ALL: [Self; 6] =
        [Self::Error, Self::Panic, Self::Timeout, Self::Undecodable, Self::Crash, Self::Cancelled];

    /// The name as stored.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Panic => "panic",
            Self::Timeout => "timeout",
            Self::Undecodable => "undecodable",
            Self::Crash => "crash",
            Self::Cancelled => "cancelled",
        }
    }

    /// The kind of this name; an unknown one (written by a newer version) reads as `Error`.
    pub fn parse(name: &str) -> Self {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name).unwrap_or(Self::Error)
    }
}

impl fmt::Display for FailureKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A failure as it is stored: bounded, and free of what databases refuse.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// How the attempt failed.
    pub kind: FailureKind,
    /// What happened, at most [`MAX_FAILURE_BYTES`] long.
    pub message: String,
}

impl Failure {
    /// Replaces NUL, which neither PostgreSQL's text nor jsonb takes, and cuts what is too long: a failure that
    /// cannot be stored would leave its job running for ever.
    pub fn new(kind: FailureKind, message: &str) -> Self {
        let mut message = message.replace('\0', "\u{2400}");
        if message.len() > MAX_FAILURE_BYTES {
            const CUT: &str = " … (cut)";
            message.truncate(message.floor_char_boundary(MAX_FAILURE_BYTES - CUT.len()));
            message.push_str(CUT);
        }
        Self { kind, message }
    }
}

/// What a failed attempt asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Backoff,
    In(Duration),
    Never,
}

/// An error of a handler, with a word on what should follow. Any other error follows the job's backoff.
///
/// ```
/// use diesel_jobs_core::{JobError, ResultExt};
/// use std::time::Duration;
///
/// fn charge(answer: Result<(), std::io::Error>) -> Result<(), JobError> {
///     // The card is gone: no further attempt will help.
///     answer.fatal()?;
///     // The bank asks us to come back.
///     Err(JobError::msg("bank closed").retry_in(Duration::from_secs(3600)))
/// }
/// # assert!(!charge(Ok(())).unwrap_err().is_fatal());
/// ```
pub struct JobError {
    source: anyhow::Error,
    kind: FailureKind,
    next: Next,
}

impl JobError {
    /// Wraps an error, to be retried after the job's backoff: any `std::error::Error`, an `anyhow::Error` or a
    /// `Box<dyn Error + Send + Sync>`.
    pub fn new<M>(error: impl IntoJobError<M>) -> Self {
        error.into_job_error()
    }

    /// An error that is only a message.
    pub fn msg(message: impl fmt::Display + fmt::Debug + Send + Sync + 'static) -> Self {
        Self::of_kind(FailureKind::Error, anyhow::Error::msg(message))
    }

    /// Retries after `delay` instead of the job's backoff. Attempts still count.
    pub fn retry_in(mut self, delay: Duration) -> Self {
        self.next = Next::In(delay);
        self
    }

    /// Makes this the last attempt: the job is discarded.
    pub fn fatal(mut self) -> Self {
        self.next = Next::Never;
        self
    }

    /// Whether the handler said what should follow: neither is guessed nor tried again at once what somebody decided.
    #[doc(hidden)]
    pub fn has_a_word(&self) -> bool {
        self.next != Next::Backoff
    }

    /// The error and what caused it, outermost first.
    #[doc(hidden)]
    pub fn causes(&self) -> impl Iterator<Item = &(dyn std::error::Error + 'static)> {
        self.source.chain()
    }

    /// Adds what is known about it, before the error itself.
    #[doc(hidden)]
    pub fn noted(self, note: impl fmt::Display + fmt::Debug + Send + Sync + 'static) -> Self {
        Self { source: self.source.context(note), ..self }
    }

    /// Whether no further attempt follows.
    pub fn is_fatal(&self) -> bool {
        self.next == Next::Never
    }

    /// The wait asked for, if any.
    pub(crate) fn delay(&self) -> Option<Duration> {
        match self.next {
            Next::In(delay) => Some(delay),
            Next::Backoff | Next::Never => None,
        }
    }

    pub(crate) fn of_kind(kind: FailureKind, source: anyhow::Error) -> Self {
        Self { source, kind, next: Next::Backoff }
    }

    /// The failure as it is stored: the error and its causes on one line.
    pub(crate) fn to_failure(&self) -> Failure {
        Failure::new(self.kind, &format!("{:#}", self.source))
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

/// The errors a handler may return. `M` is inferred: without it the impl for `Box<dyn Error + Send + Sync>` would overlap
/// the other one, because `anyhow` might learn to convert from it.
#[diagnostic::on_unimplemented(
    message = "a job cannot fail with `{Self}`",
    note = "an error is a `std::error::Error + Send + Sync + 'static`, `anyhow::Error`, `Box<dyn Error + Send + Sync>` or `JobError`"
)]
pub trait IntoJobError<M> {
    /// Brings the error to its common form. A `JobError` inside keeps what it says about the next attempt, except where
    /// an `anyhow::Error` holds it and went into a box: `anyhow` hides its type there.
    fn into_job_error(self) -> JobError;
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
}

impl IntoJobError<Boxed> for BoxError {
    fn into_job_error(self) -> JobError {
        match self.downcast::<JobError>() {
            Ok(error) => *error,
            Err(source) => JobError::of_kind(FailureKind::Error, anyhow::Error::from_boxed(source)),
        }
    }
}

/// Says on a `Result` what should follow its error. `M` is inferred.
pub trait ResultExt<T, M> {
    /// See [`JobError::fatal`].
    fn fatal(self) -> Result<T, JobError>;
    /// See [`JobError::retry_in`].
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

/// `Debug` as `Display`: a `main` that returns a `Result` prints its error by `Debug`, and what these errors say is meant
/// for whoever reads it there.
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

/// Nothing drives futures that wait for time, sockets or threads. Without this check the first of them panics.
#[derive(thiserror::Error)]
#[error(
    "no tokio runtime is running here, and the worker and its database connections need one: write `#[tokio::main]` above \
     `async fn main`, or call this inside `tokio::runtime::Runtime::new()?.block_on(..)`"
)]
#[non_exhaustive]
pub struct NoRuntime;

debug_as_display!(NoRuntime);

impl NoRuntime {
    /// Fails outside of a runtime.
    pub fn check() -> Result<(), Self> {
        tokio::runtime::Handle::try_current().map(drop).map_err(|_| Self)
    }
}

#[cfg(test)]
#[path = "error/tests.rs"]
mod tests;
