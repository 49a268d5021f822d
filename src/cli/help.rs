//! The help texts: the commands in groups, and an example for each.

mod examples;

use std::fmt::Write as _;

use clap::{Command, CommandFactory as _};

use super::args::Cli;
use super::exit;

/// The commands, by what they are for.
const GROUPS: [(&str, &[&str]); 6] = [
    ("Run jobs", &["run", "doctor", "migrate", "migrations"]),
    ("See what happens", &["stats", "top", "tail", "list", "show", "why", "failures"]),
    (
        "Act on jobs",
        &[
            "enqueue",
            "retry",
            "run-now",
            "reschedule",
            "cancel",
            "discard",
            "delete",
            "move",
            "reprioritise",
            "rerun",
            "release-permit",
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

/// The name of each command is at most this long.
const NAME: usize = 13;

/// The command line, with examples.
pub(super) fn command() -> Command {
    let with_example = |command: Command| {
        let name = command.get_name().to_owned();
        let with_actions = command.mut_subcommands(|action| match examples::of_action(&name, action.get_name()) {
            Some(example) => action.after_help(format!("Example:\n  {example}")),
            None => action,
        });
        match examples::of(&name) {
            Some(example) => {
                let example = format!("Example:\n  {example}");
                let long = format!("{example}\n\n{}", exit::HELP);
                with_actions.after_help(example).after_long_help(long)
            }
            None => with_actions,
        }
    };
    taking_negative_numbers(Cli::command().mut_subcommands(with_example))
}

/// Options read `-1` as their value, and say what they take instead. Otherwise clap would say that there is no option
/// `-1`.
fn taking_negative_numbers(command: Command) -> Command {
    command
        .mut_args(|arg| if arg.get_action().takes_values() { arg.allow_negative_numbers(true) } else { arg })
        .mut_subcommands(taking_negative_numbers)
}

/// The same for reading arguments. `--help` shows the commands in groups, and leaves the options of `run` to `run
/// --help`.
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
    text.push_str("`worker COMMAND --help` tells you more about a command. Without one, the worker runs jobs, with the options of `run`.\n");
    text
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::examples::{OF_ACTIONS, OF_COMMANDS};
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
            assert!(examples::of(name).is_some(), "{name} has no example");
        }
        for (name, _) in OF_COMMANDS {
            assert!(cli.find_subcommand(name).is_some(), "there is no command {name}");
        }
    }

    #[test]
    fn each_action_of_a_command_has_an_example_in_its_help() {
        let mut actions = 0;
        for command in command().get_subcommands() {
            for action in command.get_subcommands().filter(|action| !action.is_hide_set()) {
                let (name, of) = (action.get_name(), command.get_name());
                let help = action.clone().render_long_help().to_string();
                assert!(help.contains(&format!("Example:\n  worker {of} {name}")), "{of} {name}: {help}");
                actions += 1;
            }
        }
        assert_eq!(actions, OF_ACTIONS.len());
    }

    /// The words of an example, as a shell reads them.
    fn words(example: &str) -> Vec<String> {
        let line = example.split(" > ").next().unwrap();
        let (mut words, mut word, mut quote) = (Vec::new(), String::new(), None);
        for letter in line.chars().chain([' ']) {
            match (quote, letter) {
                (Some(open), letter) if open == letter => quote = None,
                (None, '"' | '\'') => quote = Some(letter),
                (None, ' ') if word.is_empty() => {}
                (None, ' ') => words.push(std::mem::take(&mut word)),
                (_, letter) => word.push(letter),
            }
        }
        words
    }

    #[test]
    fn the_examples_are_valid_command_lines() {
        for (name, example) in OF_COMMANDS {
            let matches = grouped().try_get_matches_from(words(example));
            assert!(matches.is_ok_and(|matches| matches.subcommand_name() == Some(*name)), "{example}");
        }
        for (command, action, example) in OF_ACTIONS {
            let matches = grouped().try_get_matches_from(words(example)).unwrap();
            let (name, matches) = matches.subcommand().unwrap();
            assert_eq!((name, matches.subcommand_name()), (*command, Some(*action)), "{example}");
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
