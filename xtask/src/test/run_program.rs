//! Runs one test program.
//!
//! The output of a program is printed whole when the program ends. A program that takes too long is killed with all its
//! descendants, and counts as failed.

use std::{
    fs::{self, File},
    io::Read as _,
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};

use super::{end::wait, output::Times, program::Program};

/// How many tests of a program run at a time.
const THREADS: usize = 3;

/// How programs are run.
pub(crate) struct How<'a> {
    /// The directory of their output while they run.
    pub(crate) outputs: &'a Path,
    /// How long each of them may take.
    pub(crate) limit: Duration,
    /// Changes the environment of each command.
    pub(crate) prepare: &'a (dyn Fn(&mut Command) + Sync),
    /// Prints the output of a program that has ended.
    pub(crate) print: &'a (dyn Fn(&[u8]) + Sync),
}

/// A program that has ended.
pub(super) struct Ended {
    /// Or what is wrong with it.
    pub(super) verdict: Result<(), String>,
    pub(super) output: String,
    pub(super) took: Duration,
    /// How long each of its tests took.
    pub(super) tests: Vec<(Duration, String)>,
}

/// Runs one program, and prints what it wrote. `mark` distinguishes the file of its output.
pub(super) fn run_program(program: &Program, mark: &str, how: &How<'_>) -> Ended {
    let (name, begun) = (&program.name, Instant::now());
    let file = how.outputs.join(format!("{}-{mark}", name.replace(' ', "-")));
    eprintln!("     Started {name}");
    let mut times = Times::default();
    let end = start(program, &file, how).and_then(|child| {
        let mut written = File::open(&file).with_context(|| format!("cannot read {}", file.display()))?;
        wait(child, how.limit, || {
            let mut new = Vec::new();
            // What cannot be read now is read with the whole output.
            let _ = written.read_to_end(&mut new);
            times.read(&String::from_utf8_lossy(&new), begun.elapsed());
        })
    });
    let took = begun.elapsed();
    let verdict = match end {
        Ok(Some(status)) if status.success() => Ok(()),
        Ok(Some(status)) => Err(format!("{name} failed ({status})")),
        Ok(None) => Err(format!("{name} was killed, because it had not ended after {:?}", how.limit)),
        Err(problem) => Err(format!("{name} cannot be run: {problem:#}")),
    };
    let output = String::from_utf8_lossy(&fs::read(&file).unwrap_or_default()).into_owned();
    let line = verdict.as_ref().err().map_or_else(|| format!("{name} ended"), Clone::clone);
    let said = format!(
        "     Running {name} ({})\n{output}     {line} after {:.1} s\n\n",
        program.file.display(),
        took.as_secs_f64()
    );
    (how.print)(said.as_bytes());
    if fs::remove_file(&file).is_err() {
        eprintln!("cannot remove {}", file.display());
    }
    Ended { verdict, output, took, tests: times.each(THREADS) }
}

/// Starts a program. Both of its outputs go to one file, so that descendants that outlive it hold nothing up.
fn start(program: &Program, output: &Path, how: &How<'_>) -> Result<std::process::Child> {
    let file = File::options().create(true).write(true).truncate(true).open(output);
    let file = file.with_context(|| format!("cannot write {}", output.display()))?;
    let mut command = program.command(&how.prepare);
    command.env("RUST_TEST_THREADS", THREADS.to_string());
    command.stdin(Stdio::null()).stdout(file.try_clone().context("cannot share the output")?).stderr(file);
    command.spawn().with_context(|| format!("cannot start {}", program.file.display()))
}
