//! What happens in a sequence when one of its jobs is discarded.

use serde::{Deserialize, Serialize};

/// What happens in a sequence when one of its jobs is discarded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum OnDiscard {
    /// The sequence halts: none of the later jobs starts. `worker retry` runs the discarded job again, and `worker
    /// sequences skip` continues without it.
    #[default]
    Halt,
    /// The next job starts.
    Skip,
}

impl OnDiscard {
    /// The name that is stored, and written in `#[job]`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Halt => "halt",
            Self::Skip => "skip",
        }
    }
}
