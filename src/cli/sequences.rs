//! `sequences`: the halted sequences, and how to continue with one.

use clap::{Args, Subcommand};
use diesel_jobs_core::storage::{HaltedSequence, MOST_AHEAD, is_key, key_text, keyed};
use serde::Serialize;

use super::actor_args::Who;
use super::app::App;
use super::database;
use super::exit::{CliError, Exit};
use super::output::{self, Align, Table};

/// How many halted sequences are printed.
const MOST: usize = 1000;

#[derive(Debug, Subcommand)]
pub(super) enum SequencesAction {
    /// Print the halted sequences, at most 1000; the default
    List,
    /// Continue a halted sequence without its discarded job
    ///
    /// To run the discarded job again instead: `worker retry ID`.
    Skip(SkipArgs),
}

#[derive(Debug, Args)]
pub(super) struct SkipArgs {
    /// The name of the sequence: that of the kind, if the job gives no other
    name: String,
    /// The key: as `worker sequences` prints it, such as '[7]', or its values, such as 7
    key: String,
    #[command(flatten)]
    who: Who,
}

#[derive(Serialize)]
struct Skipped<'a> {
    /// Whether it was halted.
    changed: bool,
    name: &'a str,
    key: &'a str,
}

pub(super) async fn sequences(app: &App<'_>, action: &SequencesAction) -> Result<Exit, CliError> {
    let database = database::open(app.chosen()?, database::NO_HANDLERS).await?;
    database.storage.check_schema().await?;
    let operator = &database.operator;
    match action {
        SequencesAction::List => {
            let halted = operator.halted_sequences(MOST).await?;
            output::print(app.json, &halted, || human(&halted))?;
            Ok(Exit::Fine)
        }
        SequencesAction::Skip(SkipArgs { name, key, who }) => {
            let actor = who.name(app)?;
            let key = &stored_key(&operator.halted_sequences(MOST).await?, name, key)?;
            let changed = operator.skip_sequence(name, key, &actor).await?;
            output::print(app.json, &Skipped { changed, name, key }, || {
                let text = match changed {
                    true => format!("sequence `{name}`, {}: continues without the discarded job", keyed(key)),
                    false => {
                        format!(
                            "sequence `{name}`, {}: not halted; `worker sequences` prints those that are",
                            keyed(key)
                        )
                    }
                };
                output::printable(&text) + "\n"
            })?;
            Ok(if changed { Exit::Fine } else { Exit::Failed })
        }
    }
}

/// Returns the stored key of a halted sequence that `written` means. If there is no such key, returns `written`.
fn stored_key(halted: &[HaltedSequence], name: &str, written: &str) -> Result<String, CliError> {
    let keys = halted.iter().filter(|sequence| sequence.name == name).map(|sequence| sequence.key.as_str());
    let meant: Vec<&str> = keys.filter(|key| is_key(key, written)).collect();
    match meant.as_slice() {
        [one] => Ok((*one).to_owned()),
        [] => Ok(written.to_owned()),
        several if several.contains(&written) => Ok(written.to_owned()),
        several => Err(CliError::usage(format!(
            "{written:?} may be any of these keys of the sequence `{name}`: {}; write one of them as it stands here, in quotation marks \
             of the shell",
            several.join(" ")
        ))),
    }
}

fn human(halted: &[HaltedSequence]) -> String {
    if halted.is_empty() {
        return "no sequence is halted\n".to_owned();
    }
    let titles =
        [("SEQUENCE", Align::Left), ("KEY", Align::Left), ("DISCARDED JOB", Align::Right), ("SINCE", Align::Left)];
    let mut table = Table::new(&[titles[0], titles[1], titles[2], titles[3], ("WAITING", Align::Right)]);
    for HaltedSequence { name, key, job, at, waiting } in halted {
        let waiting = if *waiting > MOST_AHEAD { format!("{MOST_AHEAD}+") } else { waiting.to_string() };
        table.row([name.clone(), key_text(key), job.to_string(), output::time(*at), waiting]);
    }
    table.render()
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;
    use diesel_jobs_core::JobId;

    use super::*;

    #[test]
    fn a_key_is_found_as_it_is_written_unless_several_are_meant() {
        let halted = |key: &str| HaltedSequence {
            name: "orders".to_owned(),
            key: key.to_owned(),
            job: JobId(1),
            at: DateTime::UNIX_EPOCH,
            waiting: 0,
        };
        let all = [halted("[7]"), halted("[\"7\"]"), halted("[8]"), halted("[]")];
        let found = |written: &str| stored_key(&all, "orders", written).map_err(|error| error.to_string());
        assert_eq!(found("8").as_deref(), Ok("[8]"));
        assert_eq!(found("[7]").as_deref(), Ok("[7]"));
        assert_eq!(found("all jobs").as_deref(), Ok("[]"));
        assert_eq!(found("[9]").as_deref(), Ok("[9]"), "it is not halted");
        assert!(found("7").unwrap_err().contains("[7] [\"7\"]"));
        assert_eq!(stored_key(&all, "other", "8").unwrap(), "8");
    }
}
