//! tmux, in which tests run programs that use the whole terminal. It is found on the machine, or installed.

use std::env;
use std::path::PathBuf;

use anyhow::{Result, bail};

use crate::install::{self, Manager};

const ADVICE: &str = "install tmux, e.g. `apt-get install tmux`, `dnf install tmux` or `brew install tmux`";
const TMUX: [Manager; 3] = [
    ("apt-get", true, &["apt-get update", "apt-get install -y --no-install-recommends tmux"]),
    ("dnf", true, &["dnf install -y tmux"]),
    ("brew", false, &["brew install tmux"]),
];

/// Returns the path of the program. An error says why there is none.
pub fn ensure() -> Result<PathBuf> {
    if let Some(found) = on_the_path() {
        return Ok(found);
    }
    install::packages("tmux", &TMUX, ADVICE)?;
    match on_the_path() {
        Some(found) => Ok(found),
        None => bail!("tmux was installed and is not on the PATH\n  to fix: {ADVICE}"),
    }
}

fn on_the_path() -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).map(|dir| dir.join("tmux")).find(|program| program.is_file())
}
