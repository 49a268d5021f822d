//! `tail`: prints what happens to jobs, a line for each event, until it is interrupted.

use std::collections::{HashSet, VecDeque};
use std::io::{self, Write as _};
use std::time::Instant;

use diesel_jobs_core::{EventsSince, Happened, JobEvent, Registry};

use super::app::App;
use super::command_args::TailArgs;
use super::exit::{CliError, Exit};
use super::output::{self, printable};
use super::signals::Signals;
use super::{database, duration};

/// Whether the event is to be printed. `names` are those of the kind.
fn wants(args: &TailArgs, names: Option<&[&str]>, event: &JobEvent) -> bool {
    args.queue.as_ref().is_none_or(|queue| *queue == event.queue)
        && names.is_none_or(|names| names.contains(&event.kind.as_str()))
        && (args.state.is_empty() || args.state.contains(&event.event))
}

/// The events that were printed last. Readings overlap, so an event may come again.
#[derive(Default)]
struct Printed {
    keys: HashSet<Key>,
    order: VecDeque<Key>,
}

type Key = (diesel_jobs_core::JobId, Happened, u16, chrono::DateTime<chrono::Utc>);

impl Printed {
    const MOST: usize = 100_000;

    /// Whether the event comes for the first time.
    fn is_new(&mut self, event: &JobEvent) -> bool {
        let is_new = self.keys.insert(event.key());
        if is_new {
            self.order.push_back(event.key());
            if let Some(oldest) = (self.order.len() > Self::MOST).then(|| self.order.pop_front()).flatten() {
                self.keys.remove(&oldest);
            }
        }
        is_new
    }
}

pub(super) async fn tail(app: &App<'_>, args: &TailArgs) -> Result<Exit, CliError> {
    let database = database::open(app.chosen()?, database::NO_HANDLERS).await?;
    database.storage.check_schema().await?;
    let mut signals = Signals::install()?;
    let names = args.kind.as_deref().map(|kind| Registry::linked().names(kind));
    let (mut since, mut printed, mut away) = (EventsSince::default(), Printed::default(), None::<Instant>);
    loop {
        let read = tokio::select! {
            _ = signals.next() => return Ok(Exit::Fine),
            read = database.operator.events(&since) => read,
        };
        match read {
            Ok(read) => {
                if let Some(since) = away.take() {
                    output::complain(&format!(
                        "the database answers again, after {}",
                        duration::human(since.elapsed())
                    ));
                }
                if since == EventsSince::default() {
                    output::complain("following: what happens from now on is printed");
                }
                since = read.next;
                for event in read.events.iter().filter(|event| wants(args, names.as_deref(), event)) {
                    if printed.is_new(event) && !print(app.json, event)? {
                        return Ok(Exit::Fine);
                    }
                }
            }
            Err(problem) if problem.is_transient() => {
                if away.is_none() {
                    output::complain(&format!("the database does not answer; trying again: {problem}"));
                    away = Some(Instant::now());
                }
            }
            Err(problem) => return Err(problem.into()),
        }
        tokio::select! {
            _ = signals.next() => return Ok(Exit::Fine),
            () = tokio::time::sleep(args.interval) => {}
        }
    }
}

/// Prints one event. Returns `false` if the reader has closed the output.
fn print(json: bool, event: &JobEvent) -> io::Result<bool> {
    let line = if json { output::as_json(event)? } else { line(event) };
    let mut out = io::stdout().lock();
    match writeln!(out, "{line}").and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        written => written.map(|()| true),
    }
}

fn line(event: &JobEvent) -> String {
    let JobEvent { at, event: happened, id, kind, queue, attempt, message, .. } = event;
    let message = message.as_ref().map(|message| format!(": {message}")).unwrap_or_default();
    let at = at.to_rfc3339_opts(chrono::SecondsFormat::Millis, true);
    printable(&format!("{at} {happened:9} {id} {kind} ({queue}) attempt {attempt}{message}"))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn event(happened: Happened, message: Option<&str>) -> JobEvent {
        JobEvent {
            at: chrono::DateTime::UNIX_EPOCH,
            event: happened,
            id: diesel_jobs_core::JobId(7),
            kind: "send".into(),
            queue: "mail".into(),
            attempt: 2,
            worker: None,
            message: message.map(str::to_owned),
        }
    }

    #[test]
    fn an_event_is_one_line_whatever_its_message_is() {
        let text = line(&event(Happened::Retried, Some("no\nanswer\u{1b}[2J")));
        assert_eq!(text, "1970-01-01T00:00:00.000Z retried   7 send (mail) attempt 2: no\\nanswer\\u{1b}[2J");
    }

    #[test]
    fn events_are_filtered_and_printed_once() {
        let args = |queue: &str, state: &[Happened]| TailArgs {
            queue: Some(queue.into()),
            kind: None,
            state: state.to_vec(),
            interval: Duration::ZERO,
        };
        let retried = event(Happened::Retried, None);
        let wants = |args: &TailArgs| wants(args, None, &retried);
        assert!(wants(&args("mail", &[])) && wants(&args("mail", &[Happened::Retried])));
        assert!(!wants(&args("other", &[])) && !wants(&args("mail", &[Happened::Started])));
        let mut printed = Printed::default();
        assert!(printed.is_new(&retried) && !printed.is_new(&retried));
        assert!(printed.is_new(&event(Happened::Discarded, None)));
    }
}
