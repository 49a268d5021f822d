//! A library that is preloaded into a program and gives it another clock.

use std::fs::{self, File};
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

/// Builds the library in this directory. Returns its path.
pub(super) fn library(dir: &Path) -> Result<String> {
    if !cfg!(target_os = "linux") {
        bail!("only Linux lets a program be given another clock");
    }
    let (source, library): (PathBuf, PathBuf) = (dir.join("clock.c"), dir.join("clock.so"));
    fs::write(&source, include_str!("clock.c"))?;
    let built = Command::new("cc").args(["-shared", "-fPIC", "-o"]).args([&library, &source]).arg("-ldl").output();
    let built = built.context("cannot run the C compiler (cc)")?;
    if !built.status.success() {
        bail!("the C compiler refuses {}: {}", source.display(), String::from_utf8_lossy(&built.stderr));
    }
    Ok(std::path::absolute(library)?.display().to_string())
}

/// A clock that can be set while the program runs. Its files are in a directory that every user can enter.
pub(super) struct Clock {
    dir: PathBuf,
    library: String,
    file: File,
}

impl Clock {
    /// Makes a clock that is correct.
    pub(super) fn new() -> Result<Self> {
        let dir = std::env::temp_dir().join(format!("jobs-torture-clock-{}", std::process::id()));
        fs::DirBuilder::new().mode(0o755).create(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
        let library = library(&dir)?;
        let file = File::create(dir.join("off"))?;
        let clock = Self { dir, library, file };
        clock.set(0)?;
        Ok(clock)
    }

    /// Sets the clock to this many seconds ahead.
    pub(super) fn set(&self, seconds: i64) -> Result<()> {
        Ok(self.file.write_all_at(&seconds.to_ne_bytes(), 0)?)
    }

    /// The environment variables of a program that uses this clock.
    pub(super) fn environment(&self) -> [(&'static str, String); 2] {
        let off = self.dir.join("off").display().to_string();
        [("LD_PRELOAD", self.library.clone()), ("TORTURE_CLOCK_FILE", off)]
    }
}

impl Drop for Clock {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.dir);
    }
}
