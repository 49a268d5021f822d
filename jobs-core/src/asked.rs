//! What operators ask of workers.

use std::str::FromStr;

use serde::Serialize;

/// What an operator asks of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Asked {
    /// It claims no more jobs, and continues with those that run.
    Quiet,
    /// It shuts down, as after SIGTERM.
    Stop,
}

impl Asked {
    /// The name, as in the database.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Quiet => "quiet",
            Self::Stop => "stop",
        }
    }
}

impl FromStr for Asked {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        [Self::Quiet, Self::Stop]
            .into_iter()
            .find(|asked| asked.as_str() == word)
            .ok_or_else(|| format!("{word:?} is not a request to a worker; write \"quiet\" or \"stop\""))
    }
}
