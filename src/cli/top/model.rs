//! What is shown and selected, and what a key changes.

use std::time::Instant;

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::pane::{PANES, Pane};
use super::rows::{self, Row};
use super::snapshot::{Read, Snapshot};

/// What is drawn over the tables.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Dialog {
    #[default]
    None,
    Help,
    /// Asks whether to pause or resume this queue.
    Confirm {
        queue: String,
        paused: bool,
    },
}

/// What the loop must do after a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Nothing,
    Refresh,
    Quit,
    SetPaused { queue: String, paused: bool },
}

pub(super) struct Model {
    pub(super) storage: &'static str,
    pub(super) has_colours: bool,
    /// The height of the terminal, for whole pages.
    pub(super) height: u16,
    pub(super) snapshot: Option<Box<Snapshot>>,
    /// Since when the database cannot be read, and why.
    pub(super) problem: Option<(Instant, String)>,
    pub(super) focus: Pane,
    pub(super) dialog: Dialog,
    /// What happened last.
    pub(super) message: Option<String>,
    /// The order of each table, as the number of its column.
    sort: [usize; 4],
    /// The name of the selected row of each table. The selection stays on it when the rows change places.
    selected: [Option<String>; 4],
}

impl Model {
    pub(super) fn new(storage: &'static str, has_colours: bool) -> Self {
        Self {
            storage,
            has_colours,
            height: 24,
            snapshot: None,
            problem: None,
            focus: Pane::Queues,
            dialog: Dialog::None,
            message: None,
            sort: [0; 4],
            selected: [const { None }; 4],
        }
    }

    /// Takes what was read. If nothing was, the last state stays on the screen, with the problem.
    pub(super) fn receive(&mut self, read: Read) {
        match read {
            Ok(snapshot) => (self.snapshot, self.problem) = (Some(snapshot), None),
            Err(problem) => {
                let since = self.problem.as_ref().map_or_else(Instant::now, |(since, _)| *since);
                self.problem = Some((since, problem));
            }
        }
    }

    /// The rows of a table, in its order.
    pub(super) fn rows(&self, pane: Pane) -> Vec<Row> {
        self.snapshot.as_ref().map(|snapshot| rows::of(pane, snapshot, self.sort[pane as usize])).unwrap_or_default()
    }

    /// The column by which a table is sorted.
    pub(super) fn sorted_by(&self, pane: Pane) -> &'static str {
        rows::orders(pane)[self.sort[pane as usize]]
    }

    /// The place of the selected row. `None` if there are no rows.
    pub(super) fn selection(&self, pane: Pane, rows: &[Row]) -> Option<usize> {
        let named = self.selected[pane as usize].as_ref();
        let place = named.and_then(|name| rows.iter().position(|row| row.name == *name)).unwrap_or(0);
        (!rows.is_empty()).then_some(place)
    }

    /// Moves the selection by this many rows.
    fn move_by(&mut self, by: isize) {
        let rows = self.rows(self.focus);
        if let Some(place) = self.selection(self.focus, &rows) {
            let place = place.saturating_add_signed(by).min(rows.len() - 1);
            self.selected[self.focus as usize] = Some(rows[place].name.clone());
        }
    }

    fn focus_by(&mut self, by: usize) {
        self.focus = PANES[(self.focus as usize + by) % PANES.len()];
    }

    /// Changes what the key stands for.
    pub(super) fn key(&mut self, key: KeyEvent) -> Action {
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return if matches!(key.code, KeyCode::Char('c')) { Action::Quit } else { Action::Nothing };
        }
        match std::mem::take(&mut self.dialog) {
            Dialog::None => self.command(key.code),
            Dialog::Help => Action::Nothing,
            Dialog::Confirm { queue, paused } => match key.code {
                KeyCode::Char('y' | 'Y') => Action::SetPaused { queue, paused },
                _ => {
                    self.message = Some(format!("queue {queue} was not changed"));
                    Action::Nothing
                }
            },
        }
    }

    fn command(&mut self, key: KeyCode) -> Action {
        let page = isize::from(i16::try_from(self.height / 4).unwrap_or(i16::MAX)).max(1);
        self.message = None;
        match key {
            KeyCode::Char('q') | KeyCode::Esc => return Action::Quit,
            KeyCode::Char('?' | 'h') => self.dialog = Dialog::Help,
            KeyCode::Char('r' | ' ') => return Action::Refresh,
            KeyCode::Down | KeyCode::Char('j') => self.move_by(1),
            KeyCode::Up | KeyCode::Char('k') => self.move_by(-1),
            KeyCode::PageDown => self.move_by(page),
            KeyCode::PageUp => self.move_by(-page),
            KeyCode::Home | KeyCode::Char('g') => self.move_by(isize::MIN),
            KeyCode::End | KeyCode::Char('G') => self.move_by(isize::MAX),
            KeyCode::Tab | KeyCode::Right => self.focus_by(1),
            KeyCode::BackTab | KeyCode::Left => self.focus_by(PANES.len() - 1),
            KeyCode::Char('s') => {
                let sort = &mut self.sort[self.focus as usize];
                *sort = (*sort + 1) % rows::orders(self.focus).len();
            }
            KeyCode::Char('p') => self.ask_for_pause(),
            _ => {}
        }
        Action::Nothing
    }

    fn ask_for_pause(&mut self) {
        let rows = self.rows(Pane::Queues);
        match (self.focus, self.selection(Pane::Queues, &rows)) {
            (Pane::Queues, Some(place)) => {
                let Row { name, is_paused, .. } = &rows[place];
                self.dialog = Dialog::Confirm { queue: name.clone(), paused: !is_paused };
            }
            (Pane::Queues, None) => self.message = Some("there is no queue to pause".to_owned()),
            _ => {
                self.message =
                    Some("select a queue first: press tab until the table of queues has the focus".to_owned())
            }
        }
    }
}

#[cfg(test)]
#[path = "model/tests.rs"]
mod tests;
