//! The help texts: the commands in groups, and an example for each.

use std::fmt::Write as _;

use clap::{Command, CommandFactory as _};

use super::args::Cli;
use super::exit;

/// The commands, by what they are for.
const GROUPS: [(&str, &[&str]); 6] = [
    ("Run jobs", &["run", "check", "migrate", "migrations"]),
    ("See what happens", &["stats", "top", "tail", "list", "show", "why", "failures", "doctor"]),
    (
        "Act on jobs",
        &[
            "retry",
            "run-now",
            "cancel",
            "discard",
            "delete",
            "move",
            "reprioritise",
            "rerun",
            "release-slot",
            "release-key",
            "operations",
            "audit",
            "export",
            "import",
        ],
    ),
    (
        "Change settings while workers run",
        &["queues", "kinds", "limits", "sequences", "workers", "schedules", "retention"],
    ),
    ("Protect a database and its copies", &["freeze", "thaw", "environment"]),
    ("Other tools", &["dashboard", "bench", "completions", "man"]),
];

/// An example for each command. They are valid command lines, which a test checks.
const EXAMPLES: [(&str, &str); 38] = [
    ("run", "worker run --queues mail=10,default=50"),
    ("check", "worker check --queues mail"),
    ("migrate", "worker migrate status"),
    ("migrations", "worker migrations copy migrations"),
    ("stats", "worker stats"),
    ("top", "worker top --interval 1s"),
    ("tail", "worker tail --kind charge --state discarded"),
    ("list", "worker list --state discarded --kind charge --error timeout"),
    ("show", "worker show 42"),
    ("why", "worker why 42"),
    ("failures", "worker failures --kind charge"),
    ("doctor", "worker doctor --objective 1m"),
    ("retry", "worker retry --state discarded --kind charge --dry-run"),
    ("run-now", "worker run-now --state scheduled --queue reports"),
    ("cancel", "worker cancel --kind send_newsletter --older-than 2h --yes"),
    ("discard", "worker discard --kind charge --state retrying"),
    ("delete", "worker delete --state completed --finished-before 7d"),
    ("move", "worker move --to slow --kind export_archive"),
    ("reprioritise", "worker reprioritise --to 10 --tag vip"),
    ("rerun", "worker rerun --state completed --kind invoice --finished-after 1d"),
    ("release-slot", "worker release-slot 42"),
    ("release-key", "worker release-key 42"),
    ("operations", "worker operations resume 7"),
    ("audit", "worker audit --limit 50"),
    ("export", "worker export --state discarded > discarded.jsonl"),
    ("import", "worker import discarded.jsonl --others enqueue"),
    ("queues", "worker queues pause mail --reason \"the mail server is down\""),
    ("kinds", "worker kinds pause charge --reason \"the bank is closed\""),
    ("limits", "worker limits set stripe 2 --reason \"the bank is slow\""),
    ("sequences", "worker sequences skip orders '[7]'"),
    ("workers", "worker workers show 018f4c1e"),
    ("schedules", "worker schedules pause nightly_report"),
    ("retention", "worker retention set discarded 7d --kind charge"),
    ("freeze", "worker freeze --reason \"a restore is checked\""),
    ("thaw", "worker thaw"),
    ("environment", "worker environment set production"),
    ("completions", "worker completions bash > /etc/bash_completion.d/worker"),
    ("man", "worker man > /usr/local/share/man/man1/worker.1"),
];

/// Examples of commands that not every program has.
const FURTHER: [(&str, &str); 2] =
    [("dashboard", "worker dashboard --listen 127.0.0.1:8080"), ("bench", "worker bench --time 30s")];

/// The name of each command is at most this long.
const NAME: usize = 13;

/// The command line, with examples.
pub(super) fn command() -> Command {
    let with_example = |command: Command| {
        let example = EXAMPLES.iter().chain(&FURTHER).find(|(name, _)| *name == command.get_name());
        match example {
            Some((_, example)) => {
                let example = format!("Example:\n  {example}");
                let long = format!("{example}\n\n{}", exit::HELP);
                command.after_help(example).after_long_help(long)
            }
            None => command,
        }
    };
    Cli::command().mut_subcommands(with_example)
}

/// The same for reading arguments. `--help` shows the commands in groups, and leaves the options of `run` to `run --help`.
pub(super) fn grouped() -> Command {
    let commands = groups(&Cli::command());
    command()
        .mut_subcommands(|command| command.hide(true))
        .mut_args(|arg| if arg.get_help_heading() == Some("Options of run") { arg.hide(true) } else { arg })
        .help_template(format!(
            "{{about-with-newline}}\n{{usage-heading}} worker [COMMAND] [OPTIONS]\n\n{commands}\n{{all-args}}{{after-help}}"
        ))
}

/// The list of the commands.
fn groups(cli: &Command) -> String {
    let mut text = String::new();
    for (title, names) in GROUPS {
        // Writing to a `String` cannot fail.
        let _ = writeln!(text, "{title}:");
        for name in names {
            let Some(command) = cli.find_subcommand(name).filter(|command| !command.is_hide_set()) else { continue };
            let about = command.get_about().map(ToString::to_string).unwrap_or_default();
            let _ = writeln!(text, "  {name:NAME$} {about}");
        }
        text.push('\n');
    }
    text.push_str("`worker COMMAND --help` tells more about a command. Without a command the worker runs jobs, with the options of `run`.\n");
    text
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_command_is_in_one_group_and_has_an_example() {
        let cli = Cli::command();
        let visible: BTreeSet<&str> =
            cli.get_subcommands().filter(|command| !command.is_hide_set()).map(Command::get_name).collect();
        let listed: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        assert_eq!(listed.len(), listed.iter().collect::<BTreeSet<_>>().len(), "a command is listed twice");
        for name in &visible {
            assert!(listed.contains(name), "{name} is in no group");
            assert!(EXAMPLES.iter().chain(&FURTHER).any(|(of, _)| of == name), "{name} has no example");
        }
        for (name, _) in EXAMPLES {
            assert!(cli.find_subcommand(name).is_some(), "there is no command {name}");
        }
    }

    #[test]
    fn the_examples_are_valid_command_lines() {
        for (name, example) in EXAMPLES {
            let line = example.split(" > ").next().unwrap();
            let mut words = Vec::new();
            for (place, part) in line.split('"').enumerate() {
                if place % 2 == 1 { words.push(part) } else { words.extend(part.split_whitespace()) }
            }
            let matches = grouped().try_get_matches_from(words);
            assert!(matches.is_ok_and(|matches| matches.subcommand_name() == Some(name)), "{example}");
        }
    }

    #[test]
    fn a_line_of_the_list_fits_into_a_terminal() {
        let help = grouped().render_long_help().to_string();
        for line in help.lines() {
            assert!(line.chars().count() <= 120, "{line}");
        }
        assert!(!help.contains("JOBS_QUEUES") && help.contains("Options of all commands"), "{help}");
        let list = groups(&Cli::command());
        for line in list.lines().filter(|line| line.starts_with("  ")) {
            assert!(line.chars().count() <= 100, "{} letters: {line}", line.chars().count());
        }
    }
}
