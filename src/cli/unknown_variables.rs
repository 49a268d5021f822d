//! Environment variables with a name like those of the worker that no command reads. The name may be a typing error.

use std::collections::BTreeSet;

use clap::Command;
use diesel_jobs_core::__private::nearest;

use super::help;

/// The beginning of the names.
const OURS: &str = "JOBS_";

/// Logs a warning of each such variable.
pub(super) fn say() {
    for warning in of_this_process() {
        tracing::warn!(target: "diesel_jobs", "{warning}");
    }
}

/// Returns a warning of each such variable. Its value is not in the text.
pub(super) fn of_this_process() -> Vec<String> {
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    warnings(names, &known(&help::command()))
}

fn warnings(names: impl Iterator<Item = String>, known: &BTreeSet<String>) -> Vec<String> {
    let unknown = names.filter(|name| name.starts_with(OURS) && !known.contains(name) && !is_of_others(name));
    let sorted: BTreeSet<String> = unknown.collect();
    let warning = |name: String| match nearest(&name, known.iter().map(String::as_str)) {
        Some(near) => format!("the environment variable {name} is unknown and has no effect; did you mean {near}?"),
        None => format!(
            "the environment variable {name} is unknown and has no effect; `worker run --help` lists the variables that the worker reads"
        ),
    };
    sorted.into_iter().map(warning).collect()
}

/// Whether others set or read variables of this name: tests, Kubernetes and Docker for a service whose name begins with
/// `jobs`, and builds with crash points.
fn is_of_others(name: &str) -> bool {
    name.starts_with("JOBS_TEST_")
        || cfg!(feature = "crash-points") && name == "JOBS_CRASH_AT"
        || name.contains("_SERVICE_")
        || name.contains("_PORT")
}

/// The variables that the help texts name, those of all commands: the commands may share an environment.
fn known(command: &Command) -> BTreeSet<String> {
    let of_command = [command.get_about(), command.get_long_about()];
    let of_arguments = command.get_arguments().flat_map(|argument| [argument.get_help(), argument.get_long_help()]);
    let mut names = BTreeSet::new();
    for text in of_command.into_iter().chain(of_arguments).flatten() {
        let text = text.to_string();
        let words = text.split(|c: char| !(c.is_ascii_uppercase() || c == '_'));
        names.extend(words.filter(|word| word.starts_with(OURS)).map(str::to_owned));
    }
    names.extend(command.get_subcommands().flat_map(known));
    names
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::ffi::OsString;

    use super::*;
    use crate::cli::global_args::GlobalArgs;
    use crate::cli::run_args::RunArgs;
    use crate::cli::settings;

    #[test]
    fn each_variable_that_is_read_is_known() {
        let read = RefCell::new(BTreeSet::new());
        let env = |name: &str| -> Option<OsString> {
            read.borrow_mut().insert(name.to_owned());
            None
        };
        settings::run(&RunArgs::default(), &env).unwrap();
        let global = GlobalArgs { database_url: None, database_url_file: None, log: None, json: false };
        settings::log_format(&global, &env).unwrap();
        settings::actor(None, &env).unwrap();
        let known = known(&help::command());
        let read = read.into_inner();
        assert!(read.contains("JOBS_SLOTS") && read.contains("JOBS_ACTOR"), "{read:?}");
        let is_refused = |name: &str| settings::OTHER_NAMES.iter().any(|(other, _)| *other == name);
        let is_missing = |name: &&String| name.starts_with(OURS) && !known.contains(*name) && !is_refused(name);
        let missing: Vec<_> = read.iter().filter(is_missing).collect();
        assert!(missing.is_empty(), "the help texts do not name {missing:?}");
    }

    #[test]
    fn a_misspelt_name_is_warned_of_with_the_name_that_is_meant() {
        let set = [
            "JOBS_SLOT",
            "JOBS_POLL_INTERVAL",
            "JOBS_COLOUR",
            "JOBS_TEST_URL",
            "JOBS_SERVICE_HOST",
            "JOBS_PORT_80_TCP",
            "HOME",
        ];
        let warnings = warnings(set.into_iter().map(str::to_owned), &known(&help::command()));
        assert_eq!(warnings.len(), 2, "{warnings:?}");
        assert!(warnings[0].contains("JOBS_COLOUR") && warnings[0].contains("worker run --help"), "{warnings:?}");
        assert!(warnings[1].contains("JOBS_SLOT") && warnings[1].contains("did you mean JOBS_SLOTS?"), "{warnings:?}");
    }
}
