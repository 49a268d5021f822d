//! Runs test programs some at a time, because most of them wait more than they compute.
//!
//! A test that fails runs once more: see `again.rs`.

use std::{
    fs,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use anyhow::{Context as _, Result, bail};

use super::{
    MEASURED,
    again::{self, FailedTest},
    output,
    program::Program,
    run_program::{Ended, How, run_program},
    summary::Summary,
};

/// How many programs run at a time.
const LANES: usize = 3;
/// The programs that take longest. They begin first.
const LONGEST: [&str; 4] =
    ["jobs-torture short", "jobs-worker-tests worker", "diesel-jobs conformance", "jobs-cli-tests cli"];

/// Fails unless the names above are names of programs. All programs must be given.
pub(super) fn check_names(programs: &[Program]) -> Result<()> {
    for name in LONGEST {
        if !programs.iter().any(|program| program.name == name) {
            bail!("there is no test program {name:?}\n  to fix: correct the names in xtask/src/test/side_by_side.rs");
        }
    }
    Ok(())
}

/// Runs all programs, and failed tests once more. Prints a summary. Returns a line for each program that failed.
pub(crate) fn run(mut programs: Vec<Program>, how: &How<'_>) -> Result<Vec<String>> {
    fs::create_dir_all(how.outputs).with_context(|| format!("cannot make {}", how.outputs.display()))?;
    programs.sort_by_key(|program| LONGEST.iter().position(|name| *name == program.name).unwrap_or(LONGEST.len()));
    let (mut failures, mut failed, mut summary) = (Vec::new(), Vec::new(), Summary::default());
    // Nothing else may run on the machine while something is measured.
    let lanes = if programs.iter().any(|program| program.is(MEASURED)) { 1 } else { LANES };
    for (program, ended) in in_lanes(&programs, lanes, how) {
        let counts = output::counts(&ended.output);
        summary.add(&program.name, ended.took, counts.passed, ended.tests);
        match ended.verdict {
            // It failed otherwise, or did not come to the end of its tests.
            Err(problem) if counts.failed.is_empty() => failures.push(problem),
            _ => failed.extend(counts.failed.into_iter().map(|name| {
                let output = output::of_test(&ended.output, &name);
                FailedTest { program, name, output }
            })),
        }
    }
    let (flaky, broken) = again::run(failed, how);
    summary.passed += flaky.len();
    failures.extend(broken);
    (how.print)(summary.text(&flaky, failures.len()).as_bytes());
    Ok(failures)
}

fn in_lanes<'a>(programs: &'a [Program], lanes: usize, how: &How<'_>) -> Vec<(&'a Program, Ended)> {
    let (next, ended) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..lanes {
            scope.spawn(|| {
                while let Some((number, program)) = take(programs, &next) {
                    let end = run_program(program, &number.to_string(), how);
                    ended.lock().unwrap_or_else(PoisonError::into_inner).push((program, end));
                }
            });
        }
    });
    ended.into_inner().unwrap_or_else(PoisonError::into_inner)
}

fn take<'a>(programs: &'a [Program], next: &AtomicUsize) -> Option<(usize, &'a Program)> {
    let number = next.fetch_add(1, Ordering::Relaxed);
    Some((number, programs.get(number)?))
}

#[cfg(test)]
mod tests;
