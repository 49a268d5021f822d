//! Runs test programs two at a time, because most of them wait more than they compute. Programs that measure run alone after the others.
//!
//! The output of a program is printed whole when the program ends. A program that takes too long is killed with all its descendants, and
//! counts as failed.

use std::{
    fs::{self, File},
    path::Path,
    process::{Command, Stdio},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};

use super::{end::wait, program::Program};

/// How many programs run at a time.
const LANES: usize = 2;
/// The programs that measure times, and fail if others take the processor. The torture suite runs two of its tests at a time itself.
const ALONE: [&str; 3] = ["jobs-worker-tests measured", "jobs-torture short", "jobs-torture alone"];
/// The programs that take longest. They begin first.
const LONGEST: [&str; 2] = ["diesel-jobs conformance", "jobs-worker-tests worker"];

/// How programs are run.
pub(super) struct How<'a> {
    /// The directory of their output while they run.
    pub(super) outputs: &'a Path,
    /// How long each of them may take.
    pub(super) limit: Duration,
    /// Changes the environment of each command.
    pub(super) prepare: &'a (dyn Fn(&mut Command) + Sync),
    /// Prints the output of a program that has ended.
    pub(super) print: &'a (dyn Fn(&[u8]) + Sync),
}

/// Fails unless the names above are names of programs. All programs must be given.
pub(super) fn check_names(programs: &[Program]) -> Result<()> {
    for name in ALONE.iter().chain(&LONGEST) {
        if !programs.iter().any(|program| program.name() == *name) {
            bail!("there is no test program {name:?}\n  to fix: correct the names in xtask/src/test/side_by_side.rs");
        }
    }
    Ok(())
}

/// Runs all programs. Returns a line for each one that failed.
pub(super) fn run(programs: Vec<Program>, how: &How<'_>) -> Result<Vec<String>> {
    fs::create_dir_all(how.outputs).with_context(|| format!("cannot make {}", how.outputs.display()))?;
    let (alone, together) = in_order(programs);
    let mut failures = in_lanes(&together, LANES, how);
    failures.extend(in_lanes(&alone, 1, how));
    Ok(failures)
}

/// Separates the programs that run alone, and puts those that take longest in front of the others.
fn in_order(mut programs: Vec<Program>) -> (Vec<Program>, Vec<Program>) {
    let place = |program: &Program| LONGEST.iter().position(|name| *name == program.name()).unwrap_or(LONGEST.len());
    programs.sort_by_key(place);
    programs.into_iter().partition(|program| ALONE.contains(&&*program.name()))
}

fn in_lanes(programs: &[Program], lanes: usize, how: &How<'_>) -> Vec<String> {
    let (next, failures) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..lanes {
            scope.spawn(|| {
                while let Some((number, program)) = take(programs, &next) {
                    let output = how.outputs.join(format!("{}-{number}", program.name().replace(' ', "-")));
                    if let Err(problem) = one(program, &output, how) {
                        failures.lock().unwrap_or_else(PoisonError::into_inner).push(problem);
                    }
                }
            });
        }
    });
    failures.into_inner().unwrap_or_else(PoisonError::into_inner)
}

fn take<'a>(programs: &'a [Program], next: &AtomicUsize) -> Option<(usize, &'a Program)> {
    let number = next.fetch_add(1, Ordering::Relaxed);
    Some((number, programs.get(number)?))
}

/// Runs one program, and prints what it wrote. Returns what is wrong with it.
fn one(program: &Program, output: &Path, how: &How<'_>) -> Result<(), String> {
    let (name, begun) = (program.name(), Instant::now());
    eprintln!("     Started {name}");
    let end = start(program, output, how).and_then(|child| wait(child, how.limit));
    let took = begun.elapsed().as_secs_f64();
    let verdict = match end {
        Ok(Some(status)) if status.success() => Ok(()),
        Ok(Some(status)) => Err(format!("{name} failed ({status})")),
        Ok(None) => Err(format!("{name} was killed, because it had not ended after {:?}", how.limit)),
        Err(problem) => Err(format!("{name} cannot be run: {problem:#}")),
    };
    let mut said = format!("     Running {name} ({})\n", program.file.display()).into_bytes();
    said.extend(fs::read(output).unwrap_or_default());
    let line = verdict.as_ref().err().map_or_else(|| format!("{name} ended"), Clone::clone);
    said.extend(format!("     {line} after {took:.1} s\n\n").into_bytes());
    (how.print)(&said);
    if fs::remove_file(output).is_err() {
        eprintln!("cannot remove {}", output.display());
    }
    verdict
}

/// Starts a program. Both of its outputs go to one file, so that descendants that outlive it hold nothing up.
fn start(program: &Program, output: &Path, how: &How<'_>) -> Result<std::process::Child> {
    let file = File::options().create(true).write(true).truncate(true).open(output);
    let file = file.with_context(|| format!("cannot write {}", output.display()))?;
    let mut command = program.command();
    (how.prepare)(&mut command);
    command.stdin(Stdio::null()).stdout(file.try_clone().context("cannot share the output")?).stderr(file);
    command.spawn().with_context(|| format!("cannot start {}", program.file.display()))
}

#[cfg(test)]
mod tests {
    use std::{os::unix::fs::symlink, path::PathBuf};

    use super::*;

    /// A directory with programs. It is removed when dropped.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            let directory = std::env::temp_dir().join(format!("jobs-xtask-{name}-{}", std::process::id()));
            fs::create_dir(&directory).unwrap();
            Self(directory)
        }

        /// A program of this package and name that runs a shell script.
        fn program(&self, package: &str, name: &str, script: &str) -> Program {
            let file = self.0.join(format!("{name}-0a1b2c"));
            symlink("/bin/sh", &file).unwrap();
            Program {
                file,
                arguments: ["-c", script].map(String::from).to_vec(),
                directory: self.0.clone(),
                variables: vec![("CARGO_PKG_NAME".to_owned(), package.to_owned())],
            }
        }

        /// Runs programs. Returns the failures, and what was printed.
        fn run(&self, programs: Vec<Program>, limit: Duration) -> (Vec<String>, String) {
            let printed = Mutex::new(Vec::new());
            let print = |output: &[u8]| printed.lock().unwrap().extend_from_slice(output);
            let prepare = |command: &mut Command| {
                command.env("PREPARED", "yes");
            };
            let outputs = self.0.join("outputs");
            let failures = run(programs, &How { outputs: &outputs, limit, prepare: &prepare, print: &print }).unwrap();
            assert_eq!(fs::read_dir(outputs).unwrap().count(), 0, "the outputs are removed");
            (failures, String::from_utf8(printed.into_inner().unwrap()).unwrap())
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.0).unwrap();
        }
    }

    #[test]
    fn each_failed_program_is_named_and_the_others_run() {
        let scratch = Scratch::new("failures");
        let programs = vec![
            scratch.program("one", "fails", "echo it is wrong >&2; exit 101"),
            scratch.program("one", "crashes", "kill -SEGV $$"),
            scratch.program("one", "hangs", "echo and hangs; sleep 60"),
            Program { file: scratch.0.join("absent"), ..scratch.program("one", "gone", "") },
            scratch.program("one", "passes", "echo $CARGO_PKG_NAME $PREPARED; pwd"),
        ];
        let (mut failures, printed) = scratch.run(programs, Duration::from_secs(2));
        failures.sort();
        let [absent, crashes, fails, hangs] = failures.as_slice() else { panic!("{failures:?}") };
        assert!(absent.starts_with("one absent cannot be run: cannot start"), "{absent}");
        assert!(crashes.starts_with("one crashes failed (signal: 11"), "{crashes}");
        assert_eq!(fails, "one fails failed (exit status: 101)");
        assert_eq!(hangs, "one hangs was killed, because it had not ended after 2s");
        for text in ["it is wrong\n", "and hangs\n", "one yes\n", "one passes ended after"] {
            assert!(printed.contains(text), "{text} in {printed}");
        }
    }

    #[test]
    fn the_output_of_a_program_is_not_mixed_with_that_of_another() {
        let scratch = Scratch::new("outputs");
        let script = |word: &str| format!("for i in 1 2 3 4 5; do echo {word}; sleep 0.05; done");
        let programs =
            vec![scratch.program("", "first", &script("one")), scratch.program("", "second", &script("two"))];
        let (failures, printed) = scratch.run(programs, Duration::from_secs(60));
        assert!(failures.is_empty(), "{failures:?}");
        for word in ["one\n", "two\n"] {
            assert!(printed.contains(&word.repeat(5)), "{printed}");
        }
    }

    #[test]
    fn programs_that_measure_run_alone_after_the_others() {
        let scratch = Scratch::new("alone");
        let script = "echo $0 begins >> log; sleep 0.2; echo $0 ends >> log";
        let names =
            [("jobs-worker-tests", "measured"), ("jobs-torture", "alone"), ("other", "first"), ("other", "second")];
        let mut programs: Vec<_> = names.iter().map(|(package, name)| scratch.program(package, name, script)).collect();
        for (program, (_, name)) in programs.iter_mut().zip(names) {
            program.arguments.push(name.to_owned());
        }
        let (failures, _) = scratch.run(programs, Duration::from_secs(60));
        assert!(failures.is_empty(), "{failures:?}");
        let log = fs::read_to_string(scratch.0.join("log")).unwrap();
        let lines: Vec<_> = log.lines().collect();
        // The two others run at a time.
        assert!(lines[..2].iter().all(|line| line.ends_with("begins")), "{log}");
        assert!(lines[..4].iter().all(|line| line.starts_with("first") || line.starts_with("second")), "{log}");
        assert_eq!(lines[4..], ["measured begins", "measured ends", "alone begins", "alone ends"]);
    }

    #[test]
    fn a_name_that_no_program_has_is_an_error() {
        let scratch = Scratch::new("names");
        let named = |name: &&str| {
            let (package, target) = name.split_once(' ').unwrap();
            scratch.program(package, target, "")
        };
        let mut programs: Vec<_> = ALONE.iter().chain(&LONGEST).map(named).collect();
        check_names(&programs).unwrap();
        programs.remove(0);
        assert!(check_names(&programs).unwrap_err().to_string().contains(ALONE[0]));
    }
}
