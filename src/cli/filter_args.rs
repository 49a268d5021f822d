//! The options that select jobs. `list`, `export` and all commands that act on jobs share them.

use clap::Args;
use diesel_jobs_core::storage::{ArgIs, JobFilter, When};
use diesel_jobs_core::{JobState, Registry, WorkerId};

use super::exit::CliError;
use super::parse;

/// The options that select jobs. A job must meet all of them.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Which jobs")]
pub(super) struct FilterArgs {
    /// In one of these states: available, scheduled, retrying, held, running, completed, cancelled, discarded
    #[arg(long, value_name = "STATE,..", value_delimiter = ',')]
    state: Vec<JobState>,
    /// Of one of these kinds, under any of its names
    #[arg(long, value_name = "KIND,..", value_delimiter = ',')]
    kind: Vec<String>,
    /// In one of these queues
    #[arg(long, value_name = "QUEUE,..", value_delimiter = ',', value_parser = parse::one_queue)]
    queue: Vec<String>,
    /// With all of these tags
    #[arg(long, value_name = "TAG,..", value_delimiter = ',')]
    tag: Vec<String>,
    /// With this priority
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = parse::priority)]
    priority: Option<i16>,
    /// The newest failure contains this text
    #[arg(long, value_name = "TEXT")]
    error: Option<String>,
    /// The newest failure is of this group, see `worker failures`
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = parse::fingerprint)]
    fingerprint: Option<i64>,
    /// The newest attempt is or was of this worker; its whole id
    #[arg(long, value_name = "ID", value_parser = worker)]
    worker: Option<WorkerId>,
    /// Enqueued before this: a time such as 2026-01-31T08:00:00Z, or an age such as 2h
    #[arg(long, visible_alias = "older-than", value_name = "TIME")]
    enqueued_before: Option<When>,
    /// Enqueued after this
    #[arg(long, visible_alias = "newer-than", value_name = "TIME")]
    enqueued_after: Option<When>,
    /// With a run time before this
    #[arg(long, value_name = "TIME")]
    run_at_before: Option<When>,
    /// With a run time after this
    #[arg(long, value_name = "TIME")]
    run_at_after: Option<When>,
    /// Ended before this
    #[arg(long, value_name = "TIME")]
    finished_before: Option<When>,
    /// Ended after this
    #[arg(long, value_name = "TIME")]
    finished_after: Option<When>,
    /// With this value in the arguments, such as user.id=7; may be given several times
    #[arg(long, value_name = "PATH=VALUE", value_parser = argument)]
    args: Vec<ArgIs>,
    /// All conditions in one text, as the dashboard and the audit write them: "state:discarded kind:charge
    /// args.user.id:7"
    #[arg(long, value_name = "TEXT", value_parser = whole)]
    filter: Option<JobFilter>,
}

impl FilterArgs {
    /// The filter: what `--filter` says and what the other options say, with all names of its kinds. Fails if both say
    /// the same thing, and if it asks for the value of a secret argument.
    pub(super) fn filter(&self) -> Result<JobFilter, CliError> {
        let given = self.clone();
        let mut filter = given.filter.unwrap_or_default();
        filter.states.extend(given.state);
        filter.kinds.extend(given.kind);
        filter.queues.extend(given.queue);
        filter.tags.extend(given.tag);
        filter.args.extend(given.args);
        once("--priority", &mut filter.priority, given.priority)?;
        once("--error", &mut filter.error, given.error)?;
        once("--fingerprint", &mut filter.fingerprint, given.fingerprint)?;
        once("--worker", &mut filter.worker, given.worker)?;
        once("--enqueued-before", &mut filter.enqueued.before, given.enqueued_before)?;
        once("--enqueued-after", &mut filter.enqueued.after, given.enqueued_after)?;
        once("--run-at-before", &mut filter.run_at.before, given.run_at_before)?;
        once("--run-at-after", &mut filter.run_at.after, given.run_at_after)?;
        once("--finished-before", &mut filter.finished.before, given.finished_before)?;
        once("--finished-after", &mut filter.finished.after, given.finished_after)?;
        filter.validate().map_err(CliError::usage)?;
        searchable(&filter)
    }
}

/// The filter with all names of its kinds. `show` prints arguments of kinds that this program does not know, so they
/// can be searched for.
pub(super) fn searchable(filter: &JobFilter) -> Result<JobFilter, CliError> {
    Registry::linked().searchable(filter, true).map_err(CliError::usage)
}

fn once<T>(option: &str, place: &mut Option<T>, given: Option<T>) -> Result<(), CliError> {
    if place.is_some() && given.is_some() {
        return Err(CliError::usage(format!("{option} and --filter set the same condition; give one of them")));
    }
    if given.is_some() {
        *place = given;
    }
    Ok(())
}

fn whole(text: &str) -> Result<JobFilter, String> {
    text.parse()
}

fn worker(text: &str) -> Result<WorkerId, String> {
    text.parse().map(WorkerId).map_err(|_| format!("{text:?} is not the id of a worker, as `worker workers` prints it"))
}

/// Parses `user.id=7`.
fn argument(text: &str) -> Result<ArgIs, String> {
    let refused = || format!("{text:?} is not PATH=VALUE, such as user.id=7");
    let (path, value) = text.split_once('=').ok_or_else(refused)?;
    let path: Vec<String> = path.split('.').map(str::to_owned).collect();
    if path.iter().any(String::is_empty) {
        return Err(refused());
    }
    Ok(ArgIs { path, value: value.to_owned() })
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        filter: FilterArgs,
    }

    fn read(words: &[&str]) -> Result<JobFilter, String> {
        let line = Line::try_parse_from([&["x"], words].concat()).map_err(|error| error.to_string())?;
        line.filter.filter().map_err(|error| error.to_string())
    }

    #[test]
    fn each_option_is_the_condition_of_the_textual_form() {
        for (words, text) in [
            (&["--state", "discarded,retrying"][..], "state:discarded,retrying"),
            (&["--state", "discarded", "--state", "retrying"], "state:discarded,retrying"),
            (&["--kind", "charge", "--queue", "mail", "--tag", "vip"], "kind:charge queue:mail tag:vip"),
            (&["--priority", "-5"], "priority:-5"),
            (&["--error", "no answer"], "error:\"no answer\""),
            (&["--fingerprint", "-42"], "fingerprint:-42"),
            (&["--worker", "018f4c1e-0000-7000-8000-000000000001"], "worker:018f4c1e-0000-7000-8000-000000000001"),
            (&["--enqueued-before", "2h", "--enqueued-after", "1d"], "enqueued_before:2h enqueued_after:1d"),
            (&["--older-than", "2h", "--newer-than", "1d"], "enqueued_before:2h enqueued_after:1d"),
            (
                &["--run-at-before", "2026-01-31T08:00:00Z", "--run-at-after", "1h"],
                "run_at_before:2026-01-31T08:00:00Z run_at_after:1h",
            ),
            (&["--finished-before", "1h", "--finished-after", "2h"], "finished_before:1h finished_after:2h"),
            (&["--args", "user.id=7", "--args", "note=a=b"], "args.user.id:7 args.note:a=b"),
            (&["--filter", "kind:a,b priority:1", "--kind", "c"], "kind:a,b,c priority:1"),
            (&[], ""),
        ] {
            assert_eq!(read(words), Ok(text.parse().unwrap()), "{words:?}");
        }
    }

    #[test]
    fn a_wrong_option_is_refused_with_its_name_and_what_is_allowed() {
        for (words, parts) in [
            (&["--state", "dead"][..], &["--state", "available, scheduled"][..]),
            (&["--priority", "high"], &["--priority"]),
            (&["--priority", "40000"], &["--priority", "32767"]),
            (&["--fingerprint", "x"], &["--fingerprint"]),
            (&["--worker", "me"], &["--worker", "worker workers"]),
            (&["--enqueued-before", "yesterday"], &["--enqueued-before", "write a time such as"]),
            (&["--args", "user"], &["--args", "user.id=7"]),
            (&["--args", ".a=1"], &["--args", "PATH=VALUE"]),
            (&["--filter", "stat:dead"], &["--filter", "did you mean state?"]),
            (&["--filter", "priority:1", "--priority", "1"], &["--priority and --filter"]),
            (&["--kind", "a\0"], &["kinds", "NUL"]),
        ] {
            let error = read(words).unwrap_err();
            assert!(parts.iter().all(|part| error.contains(part)), "{words:?}: {error}");
        }
    }
}
