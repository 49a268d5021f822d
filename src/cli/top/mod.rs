//! `top`: what happens in the database now, on the whole terminal.
//!
//! | file | does |
//! |---|---|
//! | [`snapshot`] | reads everything that is shown, in a task of its own |
//! | [`model`] | what is shown and selected, and what a key changes; it draws nothing and reads nothing |
//! | [`rows`] | the rows of each table, as text |
//! | [`columns`] | the columns of each table, and which of them fit |
//! | [`draw`] | draws the model |
//! | here | the loop, and the terminal |

pub(super) mod args;
mod columns;
mod draw;
mod model;
mod pane;
mod rows;
mod snapshot;

use std::io::{self, IsTerminal as _};
use std::sync::Arc;
use std::time::Duration;

use diesel_jobs_storage::Database;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use tokio::sync::{Notify, mpsc};

use self::args::TopArgs;
use self::model::{Action, Model};
use super::app::App;
use super::exit::{CliError, Exit};
use super::signals::Signals;
use super::{database, settings};

/// How often the keyboard thread checks whether the command has ended.
const KEYBOARD: Duration = Duration::from_millis(200);
/// The clock on the screen moves at least this often.
const REDRAW: Duration = Duration::from_secs(1);

/// Gives the terminal back as it was, even if the command ends by an error. If it panics, the hook of `try_init` does.
struct Screen(ratatui::DefaultTerminal);

impl Drop for Screen {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

pub(super) async fn top(app: &App<'_>, args: &TopArgs) -> Result<Exit, CliError> {
    if !io::stdout().is_terminal() || !io::stdin().is_terminal() {
        return Err(CliError::usage("`top` needs a terminal; for programs and files there is `stats --json`"));
    }
    let actor = settings::actor(args.actor.clone(), app.env)?;
    let database = database::open(app.chosen()?, database::NO_HANDLERS).await?;
    database.storage.check_schema().await?;
    let mut signals = Signals::install()?;
    let mut screen =
        Screen(ratatui::try_init().map_err(|error| CliError::failed(format!("preparing the terminal: {error}")))?);

    let mut model = Model::new(database.storage.name(), has_colours(app, args));
    let (refresh, mut read) = read(&database, args.interval);
    let mut keys = keyboard();
    let (done, mut told) = mpsc::channel(1);
    loop {
        let size = screen
            .0
            .draw(|frame| draw::draw(frame, &mut model))
            .map_err(|error| CliError::failed(format!("drawing on the terminal: {error}")))?;
        model.height = size.area.height;
        let action = tokio::select! {
            _ = signals.next() => Action::Quit,
            Some(snapshot) = read.recv() => {
                model.receive(snapshot);
                Action::Nothing
            }
            event = keys.recv() => match event {
                Some(Event::Key(key)) if key.kind != KeyEventKind::Release => model.key(key),
                Some(_) => Action::Nothing,
                // The terminal is gone.
                None => Action::Quit,
            },
            Some(text) = told.recv() => {
                model.message = Some(text);
                refresh.notify_one();
                Action::Nothing
            }
            () = tokio::time::sleep(REDRAW) => Action::Nothing,
        };
        match action {
            Action::Nothing => {}
            Action::Refresh => refresh.notify_one(),
            Action::Quit => return Ok(Exit::Fine),
            Action::SetPaused { queue, paused } => {
                let (database, actor, done) = (database.clone(), actor.clone(), done.clone());
                tokio::spawn(async move { done.send(set_paused(&database, &queue, paused, &actor).await).await });
            }
        }
    }
}

/// Pauses or resumes a queue. Returns what happened, for the screen.
async fn set_paused(database: &Database, queue: &str, paused: bool, actor: &str) -> String {
    let changed = match paused {
        true => database.operator.pause_queue(queue, actor, Some("paused in top")).await,
        false => database.operator.resume_queue(queue, actor).await,
    };
    let (verb, state) = if paused { ("pausing", "paused") } else { ("resuming", "resumed") };
    match changed {
        Ok(true) => format!("queue {queue} is {state}"),
        Ok(false) => format!("queue {queue} was {state} before"),
        Err(error) => format!("{verb} queue {queue} failed: {error}"),
    }
}

/// `NO_COLOR` switches colours off if it is not empty (no-color.org).
fn has_colours(app: &App<'_>, args: &TopArgs) -> bool {
    !args.no_color && (app.env)("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// Reads the database repeatedly, so that the screen never waits for it.
fn read(database: &Database, interval: Duration) -> (Arc<Notify>, mpsc::Receiver<snapshot::Read>) {
    let (sender, receiver) = mpsc::channel(1);
    let (database, refresh) = (database.clone(), Arc::new(Notify::new()));
    let wanted = refresh.clone();
    tokio::spawn(async move {
        loop {
            if sender.send(snapshot::read(&database).await).await.is_err() {
                return;
            }
            tokio::select! {
                () = tokio::time::sleep(interval) => {}
                () = wanted.notified() => {}
            }
        }
    });
    (refresh, receiver)
}

/// Reads the terminal in a thread, which ends soon after the command.
fn keyboard() -> mpsc::Receiver<Event> {
    let (sender, receiver) = mpsc::channel(16);
    std::thread::spawn(move || {
        while !sender.is_closed() {
            match event::poll(KEYBOARD) {
                Ok(false) => {}
                Ok(true) => {
                    let Ok(event) = event::read() else { return };
                    if sender.blocking_send(event).is_err() {
                        return;
                    }
                }
                Err(_) => return,
            }
        }
    });
    receiver
}
