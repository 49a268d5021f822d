//! A browser and its driver for tests of pages: found on the machine, or installed with its package manager.

use std::env;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, Result};

use crate::install::{self, Manager};
use crate::run::succeeds;

const ADVICE: &str = "install Chromium and its driver so that `chromium` and `chromedriver` are on the PATH, e.g. \
    `apt-get install chromium chromium-driver`, `dnf install chromium chromedriver` or `brew install chromium chromedriver`";
const CHROMIUM: [Manager; 3] = [
    ("apt-get", true, &["apt-get update", "apt-get install -y --no-install-recommends chromium chromium-driver"]),
    ("dnf", true, &["dnf install -y chromium chromedriver"]),
    ("brew", false, &["brew install chromium chromedriver"]),
];

/// A browser and the program that drives it.
#[derive(Clone, Debug)]
pub struct Browser {
    /// Chromium.
    pub browser: PathBuf,
    /// chromedriver, of the same version.
    pub driver: PathBuf,
}

/// Finds them on the PATH, or installs them. An error says what to install.
pub fn ensure() -> Result<Browser> {
    if let Some(found) = find() {
        return Ok(found);
    }
    install::packages("Chromium or its driver", &CHROMIUM, ADVICE)?;
    find()
        .with_context(|| format!("Chromium and its driver were installed and are not on the PATH\n  to fix: {ADVICE}"))
}

fn find() -> Option<Browser> {
    let browser = ["chromium", "chromium-browser", "google-chrome"].into_iter().find_map(program)?;
    Some(Browser { browser, driver: program("chromedriver")? })
}

/// The program on the PATH, if it runs.
fn program(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path)
        .map(|dir| dir.join(name))
        .find(|program| program.is_file() && succeeds(Command::new(program).arg("--version")))
}
