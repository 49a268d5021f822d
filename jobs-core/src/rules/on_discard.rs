//! What happens in a sequence when one of its jobs is discarded.

use serde::{Deserialize, Serialize};

/// What happens in a sequence when one of its jobs is discarded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum OnDiscard {
    /// The sequence halts: none of its later jobs starts. To continue, run the discarded job again with `worker retry`,
    /// or leave it out with `worker sequences skip`.
    #[default]
    Halt,
    /// The next job starts.
    Skip,
}

impl OnDiscard {
    /// The name, as it is written in `#[job]` and stored in the database.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Halt => "halt",
            Self::Skip => "skip",
        }
    }
}
