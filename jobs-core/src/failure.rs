//! A failure as it is stored.

mod fingerprint;

use std::fmt;

use serde::{Deserialize, Serialize};

pub use self::fingerprint::fingerprint;

/// The fingerprint of all failures by the death of a worker.
pub const CRASH_FINGERPRINT: i64 = fingerprint::of_plain_text("crash", "");

/// The fingerprint of all entries about workers that were killed while they stopped.
pub const KILLED_FINGERPRINT: i64 = fingerprint::of_plain_text("killed", "");

/// The fingerprint of a cancelled job whose reason is this text. It must contain no number and no quoted value.
pub const fn cancel_fingerprint(reason: &str) -> i64 {
    fingerprint::of_plain_text("cancelled", reason)
}

/// The longest backtrace stored, in bytes: 16 KiB.
const MAX_BACKTRACE_BYTES: usize = 16 * 1024;

/// The longest place stored, in bytes.
const MAX_PLACE_BYTES: usize = 1024;

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
    /// The attempt took longer than the `timeout` of its kind, or than the worker's if the kind has none.
    Timeout,
    /// The stored arguments cannot be decoded as the kind's type.
    Undecodable,
    /// The worker died while it held the job.
    Crash,
    /// The handler or an operator cancelled the job. The text is the reason.
    Cancelled,
    /// The worker was killed while it was stopping. The job was released, and no attempt was consumed.
    Killed,
}

impl FailureKind {
    /// Every kind of failure.
    pub const ALL: [Self; 7] =
        [Self::Error, Self::Panic, Self::Timeout, Self::Undecodable, Self::Crash, Self::Cancelled, Self::Killed];

    /// The kinds that say what happened to a job although no attempt has failed.
    pub const WITHOUT_FAILURE: [Self; 2] = [Self::Cancelled, Self::Killed];

    /// The name as stored.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Panic => "panic",
            Self::Timeout => "timeout",
            Self::Undecodable => "undecodable",
            Self::Crash => "crash",
            Self::Cancelled => "cancelled",
            Self::Killed => "killed",
        }
    }

    /// Returns the kind with this name. A newer version may have stored an unknown name: it is read as `Error`.
    pub fn parse(name: &str) -> Self {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name).unwrap_or(Self::Error)
    }
}

impl fmt::Display for FailureKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A failure as it is stored. Its length is limited, and it contains no character that a database refuses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// How the attempt failed.
    pub kind: FailureKind,
    /// What happened, at most [`MAX_FAILURE_BYTES`] long.
    pub message: String,
    /// The same number for failures with the same text apart from numbers, ids and quoted values: see
    /// [`fingerprint`](fn@fingerprint).
    pub fingerprint: i64,
    /// The file, line and column of a panic.
    pub place: Option<String>,
    /// The functions that were active, at most 16 KiB long. `None` if it was not captured.
    pub backtrace: Option<String>,
}

impl Failure {
    /// Replaces NUL, which PostgreSQL refuses in `text` and in `jsonb`, and cuts a message that is too long. If a
    /// failure could not be stored, its job would stay `running` for ever.
    pub fn new(kind: FailureKind, message: &str) -> Self {
        let message = storable(message, MAX_FAILURE_BYTES);
        let fingerprint = match kind {
            // Its text names the worker that died. All crashes of a kind of job are one group.
            FailureKind::Crash => CRASH_FINGERPRINT,
            FailureKind::Killed => KILLED_FINGERPRINT,
            _ => fingerprint(kind.as_str(), &message),
        };
        Self { kind, message, fingerprint, place: None, backtrace: None }
    }

    /// The same failure, which comes from this place.
    pub(crate) fn with_place(self, place: Option<&str>, backtrace: Option<&str>) -> Self {
        let place = place.map(|place| storable(place, MAX_PLACE_BYTES));
        let backtrace = backtrace.map(|backtrace| storable(backtrace, MAX_BACKTRACE_BYTES));
        Self { place, backtrace, ..self }
    }
}

/// The text without NUL and not longer than this.
fn storable(text: &str, most: usize) -> String {
    const CUT: &str = " … (cut)";
    let mut text = text.replace('\0', "\u{2400}");
    if text.len() > most {
        text.truncate(text.floor_char_boundary(most - CUT.len()));
        text.push_str(CUT);
    }
    text
}
