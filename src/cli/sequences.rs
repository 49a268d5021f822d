//! `sequences`: the halted sequences, and how to go on with one.

use clap::{Args, Subcommand};
use diesel_jobs_core::storage::{HaltedSequence, MOST_AHEAD};
use serde::Serialize;

use super::app::App;
use super::database;
use super::exit::{CliError, Exit};
use super::output::{self, Align, Table};
use super::who::Who;

/// How many halted sequences are printed.
const MOST: usize = 1000;

#[derive(Debug, Subcommand)]
pub(super) enum SequencesAction {
    /// Print the halted sequences, at most 1000; the default
    List,
    /// Go on with a halted sequence, without its discarded job
    ///
    /// To run the discarded job again instead: `worker retry ID`.
    Skip(SkipArgs),
}

#[derive(Debug, Args)]
pub(super) struct SkipArgs {
    /// The name of the sequence: that of the kind, if the job gives no other
    name: String,
    /// The key, as `worker sequences` prints it, such as '[7]'
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
    let database = database::open(app.url()?, database::NO_HANDLERS).await?;
    database.storage.check_schema().await?;
    let operator = &database.operator;
    match action {
        SequencesAction::List => {
            let halted = operator.halted_sequences(MOST).await?;
            output::print(app.json, &halted, || human(&halted))?;
            Ok(Exit::Fine)
        }
        SequencesAction::Skip(SkipArgs { name, key, who }) => {
            let changed = operator.skip_sequence(name, key, &who.name(app)?).await?;
            output::print(app.json, &Skipped { changed, name, key }, || {
                let text = match changed {
                    true => format!("sequence `{name}`, key {key}: goes on without the discarded job"),
                    false => {
                        format!("sequence `{name}`, key {key}: not halted; `worker sequences` prints those that are")
                    }
                };
                output::printable(&text) + "\n"
            })?;
            Ok(if changed { Exit::Fine } else { Exit::Failed })
        }
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
        table.row([
            name.clone(),
            key.clone(),
            job.to_string(),
            at.format("%Y-%m-%d %H:%M:%S UTC").to_string(),
            waiting,
        ]);
    }
    table.render()
}
