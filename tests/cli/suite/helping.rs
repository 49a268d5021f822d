//! The help texts, the completions and the manual page. None of them needs a database.

use std::fs;
use std::process::Command;

use crate::support::{Run, Scratch, worker};

fn run(args: &[&str]) -> Run {
    worker("fixture-worker").args(args).run()
}

#[test]
fn help_lists_the_commands_in_groups_and_leaves_the_options_of_run_to_it() {
    let help = run(&["--help"]).succeeded().stdout;
    let place = |text: &str| help.find(text).unwrap_or_else(|| panic!("{text:?} is missing: {help}"));
    let order = [
        "Run jobs:",
        "  doctor ",
        "See what happens:",
        "  failures ",
        "Act on jobs:",
        "  run-now ",
        "  import ",
        "Other tools:",
        "  man ",
    ];
    assert!(order.iter().map(|text| place(text)).is_sorted(), "{help}");
    assert!(
        help.contains("Options of all commands:") && help.contains("Exit codes:") && !help.contains("--slots"),
        "{help}"
    );
    // The options of `run` are still read without the command.
    run(&["--slots", "none"]).exited(2).complained(&["--slots"]);
    run(&["lst"]).exited(2).complained(&["lst", "list"]);
}

#[test]
fn help_of_a_command_has_an_example_and_the_exit_codes() {
    for command in ["retry", "list", "failures", "operations", "export", "import", "queues", "man"] {
        let help = run(&[command, "--help"]).succeeded().stdout;
        assert!(help.contains(&format!("Example:\n  worker {command}")) && help.contains("Exit codes:"), "{help}");
    }
}

#[test]
fn completions_are_scripts_that_the_shell_reads() {
    for (shell, part) in [("bash", "complete -F"), ("zsh", "#compdef worker"), ("fish", "complete -c worker")] {
        let script = run(&["completions", shell]).succeeded();
        assert!(script.stdout.contains(part) && script.stdout.contains("reprioritise"), "{shell}");
        assert_eq!(script.stderr, "");
    }
    let scratch = Scratch::new();
    let path = scratch.path().join("worker.bash");
    fs::write(&path, run(&["completions", "bash", "--name", "jobs"]).succeeded().stdout).unwrap();
    let words = "source \"$0\"; COMP_WORDS=(jobs ret); COMP_CWORD=1; _jobs jobs ret; echo ${COMPREPLY[@]}";
    let output = Command::new("bash").args(["-c", words]).arg(&path).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "retry retention\n", "{output:?}");
    run(&["completions", "tcsh"]).exited(2).complained(&["bash", "zsh", "fish"]);
}

#[test]
fn the_manual_has_a_page_for_the_program_and_for_each_command() {
    let page = run(&["man"]).succeeded().stdout;
    assert!(page.contains(".TH worker 1") && page.contains("reprioritise") && page.contains("Exit codes"), "{page}");
    let scratch = Scratch::new();
    run(&["man", "--dir", scratch.path().to_str().unwrap()]).succeeded();
    let retry = fs::read_to_string(scratch.path().join("worker-retry.1")).unwrap();
    assert!(retry.contains("dry\\-run") && retry.contains("worker retry"), "{retry}");
    run(&["man", "--dir", "/nothing/here"]).exited(1).complained(&["writing to /nothing/here"]);
}

#[test]
fn the_version_is_that_of_the_program_and_of_the_library() {
    let version =
        |set: &str| worker("fixture-worker").args(["--version"]).env("JOBS_VERSION", set).run().succeeded().stdout;
    let library = version("4f1c2d9").strip_prefix("worker 4f1c2d9 ").unwrap().to_owned();
    assert!(library.starts_with("(diesel-jobs 0.") && library.ends_with(")\n"), "{library}");
    assert_eq!(version(""), format!("worker {} {library}", env!("CARGO_PKG_VERSION")));
}
