//! Jobs that end their process.

use std::hint::black_box;
use std::process::abort;

use anyhow::{Context as _, Result, bail};
use rustix::process::{Signal, getpid, kill_process};
use serde::{Deserialize, Serialize};

/// How the process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Poison {
    /// It aborts, as C code does when it detects corrupted memory.
    Abort,
    /// It recurses without end.
    StackOverflow,
    /// It asks for more memory than there is.
    OutOfMemory,
    /// It is killed, as by the kernel when memory is short.
    Killed,
}

impl Poison {
    /// Each of them.
    pub const ALL: [Self; 4] = [Self::Abort, Self::StackOverflow, Self::OutOfMemory, Self::Killed];

    /// Ends the process. Returns an error if the process survives.
    pub(super) fn take(self) -> Result<()> {
        match self {
            Self::Abort => abort(),
            Self::StackOverflow => bail!("the stack has no end: {}", deeper(1)),
            Self::OutOfMemory => {
                let memory = black_box(Vec::<u8>::with_capacity(isize::MAX.unsigned_abs()));
                bail!("there is memory for {} bytes", memory.capacity());
            }
            Self::Killed => kill_process(getpid(), Signal::KILL).context("cannot kill itself"),
        }
    }
}

#[inline(never)]
fn deeper(depth: u64) -> u64 {
    let frame = black_box([depth; 512]);
    // Never true, but the compiler cannot know that.
    if black_box(depth) == 0 { frame[0] } else { deeper(depth + 1) + frame[1] }
}
