//! Jobs with arguments that are hard to store, and jobs with results that are.

use std::collections::HashMap;

use anyhow::{Context as _, Result, anyhow};
use diesel_jobs::{JobContext, Outcome, State, job};
use serde::{Deserialize, Serialize};

use super::work::Work;
use crate::history::{Recorder, What};

/// Accepts values of many types.
#[job(max_attempts = 2, backoff = "fixed(20ms)")]
pub async fn hostile(text: String, number: f64, nested: serde_json::Value) {
    drop((text, number, nested));
}

/// Has arguments that cannot be written as JSON.
#[job]
pub async fn unwritable(map: HashMap<Vec<u8>, u8>) {
    drop(map);
}

/// Why a handler's result is hard to store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Manner {
    /// An error with NUL in it, and in its cause.
    Nul,
    /// An error of some megabytes.
    Endless,
    /// A panic with NUL in its message.
    Panic,
    /// A panic with a message of some megabytes.
    EndlessPanic,
    /// Characters that change how text is displayed, and escapes of half a surrogate pair.
    Odd,
    /// A reason to cancel that has NUL in it.
    Cancel,
    /// A reason to cancel of some megabytes.
    EndlessCancel,
}

impl Manner {
    /// Each of them.
    pub const ALL: [Self; 7] =
        [Self::Nul, Self::Endless, Self::Panic, Self::EndlessPanic, Self::Odd, Self::Cancel, Self::EndlessCancel];

    /// Whether the job is cancelled, and does not fail.
    pub fn cancels(self) -> bool {
        matches!(self, Self::Cancel | Self::EndlessCancel)
    }
}

/// Returns a result that is hard to store.
#[job(backoff = "fixed(20ms)")]
pub async fn rude(work: Work, manner: Manner, ctx: &JobContext, State(recorder): State<Recorder>) -> Result<Outcome> {
    recorder.say(ctx, work.number, What::Start).await?;
    recorder.say(ctx, work.number, if manner.cancels() { What::Cancel } else { What::Fail }).await?;
    let endless = || "é\0".repeat(1 << 20);
    match manner {
        Manner::Nul => Err(anyhow!("cause\0")).context("before \0 after"),
        Manner::Endless => Err(anyhow!(endless())),
        Manner::Panic => panic!("before \0 after"),
        Manner::EndlessPanic => panic!("{}", endless()),
        Manner::Odd => Err(anyhow!("\u{202e}\u{feff}\u{fffd}\u{10ffff}\r\n\u{1b}[2J\\u0000\\ud800'\"$1%s")),
        Manner::Cancel => Ok(Outcome::Cancel("before \0 after".to_owned())),
        Manner::EndlessCancel => Ok(Outcome::Cancel(endless())),
    }
}
