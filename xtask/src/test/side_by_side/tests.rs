use std::{os::unix::fs::symlink, path::PathBuf, process::Command, time::Duration};

use super::*;

/// A directory with programs. It is removed when dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let directory = std::env::temp_dir().join(format!("jobs-xtask-{name}-{}", std::process::id()));
        fs::create_dir(&directory).unwrap();
        Self(directory)
    }

    /// A program of this name that runs a shell script. The arguments of a second run are the script's.
    fn program(&self, name: &str, script: &str) -> Program {
        let file = self.0.join(name.replace(' ', "-"));
        symlink("/bin/sh", &file).unwrap();
        let script_file = self.0.join(format!("{}.sh", name.replace(' ', "-")));
        fs::write(&script_file, script).unwrap();
        Program {
            name: name.to_owned(),
            file,
            arguments: vec![script_file.display().to_string()],
            directory: self.0.clone(),
            variables: Vec::new(),
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

const MINUTES: Duration = Duration::from_secs(300);

/// The output of a test program of one test that fails.
fn failing(test: &str) -> String {
    format!(
        "printf 'test {test} ... FAILED\\n\\nfailures:\\n\\n---- {test} stdout ----\\nit is wrong\\n\\nfailures:\\n    {test}\\n\\n'
         echo 'test result: FAILED. 0 passed; 1 failed; 0 ignored'; exit 101"
    )
}

#[test]
fn each_failed_program_is_named_and_the_others_run() {
    let scratch = Scratch::new("failures");
    let programs = vec![
        scratch.program("one fails", "echo it is wrong >&2; exit 101"),
        scratch.program("one crashes", "kill -SEGV $$"),
        Program { file: scratch.0.join("absent"), ..scratch.program("one gone", "") },
        scratch.program("one passes", "echo $PREPARED; echo 'test result: ok. 7 passed; 0 failed'"),
    ];
    let (mut failures, printed) = scratch.run(programs, MINUTES);
    failures.sort();
    let [crashes, fails, absent] = failures.as_slice() else { panic!("{failures:?}") };
    assert!(absent.starts_with("one gone cannot be run: cannot start"), "{absent}");
    assert!(crashes.starts_with("one crashes failed (signal: 11"), "{crashes}");
    assert_eq!(fails, "one fails failed (exit status: 101)");
    for text in ["it is wrong\n", "yes\n", "one passes ended after", "\n7 passed, 3 failed\n"] {
        assert!(printed.contains(text), "{text} in {printed}");
    }
}

#[test]
fn a_program_that_hangs_fails() {
    let scratch = Scratch::new("hangs");
    let programs = vec![scratch.program("one hangs", "echo and hangs; sleep 600")];
    let (failures, printed) = scratch.run(programs, Duration::from_secs(1));
    assert_eq!(failures, ["one hangs was killed, because it had not ended after 1s"]);
    assert!(printed.contains("and hangs\n"), "{printed}");
}

#[test]
fn a_failed_test_runs_once_more_alone() {
    let scratch = Scratch::new("again");
    let once = |test: &str| {
        format!(
            "if [ \"$1\" = --exact ]; then echo \"$*\"; echo 'test result: ok. 1 passed; 0 failed'; exit; fi\n{}",
            failing(test)
        )
    };
    let programs = vec![
        scratch.program("one flaky", &once("claims::race")),
        scratch.program("one broken", &failing("claims::order")),
    ];
    let (failures, printed) = scratch.run(programs, MINUTES);
    assert_eq!(failures, ["one broken claims::order"]);
    let flaky = printed.split_once("FLAKY one flaky claims::race: it is wrong\n").unwrap().1;
    assert!(flaky.contains("first run:\nit is wrong\n"), "{flaky}");
    assert!(flaky.contains("--exact claims::race"), "{flaky}");
    assert!(printed.ends_with("\n1 passed, 1 failed\n"), "{printed}");

    let names = ["two a", "two b", "two c"];
    let programs = names.map(|name| scratch.program(name, &once("claims::race"))).to_vec();
    let (failures, printed) = scratch.run(programs, MINUTES);
    assert_eq!(failures, ["3 tests are flaky, and a run may have 2 at most"]);
    assert_eq!(printed.matches("FLAKY two").count(), 3, "{printed}");
}

#[test]
fn the_output_of_a_program_is_not_mixed_with_that_of_another() {
    let scratch = Scratch::new("outputs");
    let script = |word: &str| format!("for i in 1 2 3 4 5; do echo {word}; sleep 0.05; done");
    let programs = vec![scratch.program("first", &script("one")), scratch.program("second", &script("two"))];
    let (failures, printed) = scratch.run(programs, MINUTES);
    assert!(failures.is_empty(), "{failures:?}");
    for word in ["one\n", "two\n"] {
        assert!(printed.contains(&word.repeat(5)), "{printed}");
    }
}

#[test]
fn programs_that_measure_run_one_after_the_other() {
    let scratch = Scratch::new("measured");
    let script = "echo begins >> log; sleep 0.2; echo ends >> log";
    let programs = ["one measured", "two measured"].map(|name| scratch.program(name, script)).to_vec();
    assert!(scratch.run(programs, MINUTES).0.is_empty());
    assert_eq!(fs::read_to_string(scratch.0.join("log")).unwrap(), "begins\nends\n".repeat(2));
}

#[test]
fn a_name_that_no_program_has_is_an_error() {
    let scratch = Scratch::new("names");
    let mut programs: Vec<_> = LONGEST.iter().map(|name| scratch.program(name, "")).collect();
    check_names(&programs).unwrap();
    programs.remove(0);
    assert!(check_names(&programs).unwrap_err().to_string().contains(LONGEST[0]));
}
