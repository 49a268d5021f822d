//! Draws the model.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Block, Borders, Clear, Paragraph, Row, Table, TableState, Wrap};

use super::columns::{self, SPACING};
use super::model::{Dialog, Model};
use super::pane::{PANES, Pane};
use super::snapshot::Snapshot;
use crate::cli::output::{count, depth, printable, start_of};
use crate::cli::stats::{per_minute, percent, span};

/// Below this height only the table with the focus is shown.
const LOW: u16 = 22;

const HELP: &str = "\
tab, left, right   the next or previous table
up, down, j, k     select a row; page up and down, home and end, too
s                  sort the table by another column
p                  pause or resume the selected queue; it asks first
r, space           read the database now
?                  this help
q, esc, ctrl-c     quit

DUE, HELD and LATER end with + if there are more jobs than are counted quickly.
Rates, failures and times are those of the last five whole minutes.

any key closes this help";

/// A colour, or another way to stand out if there are no colours.
fn style(model: &Model, colour: Color, without: Modifier) -> Style {
    if model.has_colours { Style::new().fg(colour) } else { Style::new().add_modifier(without) }
}

pub(super) fn draw(frame: &mut Frame<'_>, model: &mut Model) {
    let [head, body, foot] =
        Layout::vertical([Constraint::Length(2), Constraint::Min(1), Constraint::Length(1)]).areas(frame.area());
    frame.render_widget(Paragraph::new(summary(model)), head);
    if frame.area().height < LOW {
        table(frame, model, model.focus, body);
    } else {
        // The table with the focus gets more room.
        let part = |pane: &Pane| Constraint::Fill(if *pane == model.focus { 2 } else { 1 });
        let areas: [Rect; PANES.len()] = Layout::vertical(PANES.iter().map(part)).areas(body);
        for (pane, area) in PANES.into_iter().zip(areas) {
            table(frame, model, pane, area);
        }
    }
    frame.render_widget(Paragraph::new(last_line(model)), foot);
    dialog(frame, model);
}

/// The two lines at the top.
fn summary(model: &Model) -> Vec<Line<'static>> {
    let Some(snapshot) = &model.snapshot else {
        return vec![Line::from(format!("worker top: {}", model.storage)), Line::from("reading ..")];
    };
    let Snapshot { stats, rates, workers, frozen, .. } = &**snapshot;
    let nothing = diesel_jobs_core::Depth { jobs: 0, is_exact: true };
    let due = stats.queues.iter().fold(nothing, |sum, queue| sum + queue.available);
    let alive = workers.iter().filter(|worker| worker.alive).count();
    // The `sum` of an empty iterator is -0.0, and would be printed as -0. So the fold begins with 0.0.
    let completed = rates.iter().map(diesel_jobs_core::history::KindRate::completed_per_minute).fold(0.0, |a, b| a + b);
    let (failed, ended) = rates.iter().fold((0, 0), |(failed, ended), rate| {
        let here = rate.work.retried + rate.work.discarded;
        (failed + here, ended + here + rate.work.completed)
    });
    let share = if ended > 0 { format!(", {} failed", percent(failed as f64 / ended as f64)) } else { String::new() };
    let age = match (stats.counted.now, stats.counted.age_seconds) {
        (true, _) => String::new(),
        (false, Some(age)) => format!(", kinds counted {} ago", span(age)),
        (false, None) => ", kinds not counted yet".to_owned(),
    };
    let first = format!(
        "worker top: {}, {} alive, read {} ago{age}",
        model.storage,
        count(i64::try_from(alive).unwrap_or(i64::MAX), "worker"),
        span(snapshot.at.elapsed().as_secs_f64()),
    );
    let second = format!("{} due, {} completed per minute{share}", depth(due, "job"), per_minute(completed));
    let second = match frozen {
        Some(freeze) => Line::styled(printable(&freeze.to_string()), style(model, Color::Yellow, Modifier::REVERSED)),
        None => Line::from(second),
    };
    vec![Line::styled(first, Style::new().add_modifier(Modifier::BOLD)), second]
}

fn table(frame: &mut Frame<'_>, model: &Model, pane: Pane, area: Rect) {
    let rows = model.rows(pane);
    let (columns, has_focus) = (columns::of(pane), pane == model.focus);
    let name = match pane {
        Pane::Queues => "queues",
        Pane::Kinds => "kinds",
        Pane::Workers => "workers",
        Pane::Jobs => "running",
    };
    let title = format!(" {name} ({}), by {} ", rows.len(), model.sorted_by(pane));
    let border = if has_focus { style(model, Color::Cyan, Modifier::BOLD) } else { Style::new() };
    let selected = model.selection(pane, &rows).filter(|_| has_focus);
    let (cells, is_bad): (Vec<_>, Vec<_>) = rows.into_iter().map(|row| (row.cells, row.is_bad)).unzip();
    let fitting = columns::fitting(columns, &cells, usize::from(area.width));
    let drawn = cells.iter().zip(is_bad).map(|(cells, is_bad)| {
        let looks = if is_bad { style(model, Color::Red, Modifier::BOLD) } else { Style::new() };
        Row::new(fitting.iter().map(|(number, width)| start_of(&cells[*number], *width))).style(looks)
    });
    let widths = fitting.iter().map(|(_, width)| Constraint::Length(u16::try_from(*width).unwrap_or(u16::MAX)));
    let titles = Row::new(fitting.iter().map(|(number, _)| columns[*number].title));
    let table = Table::new(drawn, widths)
        .header(titles.style(Style::new().add_modifier(Modifier::BOLD)))
        .column_spacing(SPACING)
        .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED))
        .block(Block::new().borders(Borders::TOP).title(title).border_style(border));
    frame.render_stateful_widget(table, area, &mut TableState::new().with_selected(selected));
}

/// A problem, what happened last, or the keys.
fn last_line(model: &Model) -> Line<'static> {
    if let Some((since, problem)) = &model.problem {
        let text = format!("the database cannot be read since {}: {problem}", span(since.elapsed().as_secs_f64()));
        return Line::styled(printable(&text), style(model, Color::Red, Modifier::REVERSED));
    }
    match &model.message {
        Some(message) => Line::styled(printable(message), style(model, Color::Green, Modifier::BOLD)),
        None => Line::from("q quit  tab table  j k select  s sort  p pause  r read  ? help"),
    }
}

fn dialog(frame: &mut Frame<'_>, model: &Model) {
    let (title, text) = match &model.dialog {
        Dialog::None => return,
        Dialog::Help => (" help ", HELP.to_owned()),
        Dialog::Confirm { queue, paused: true } => (
            " pause ",
            format!(
                "Pause queue {queue}? Workers will claim none of its jobs; running jobs continue.\n\ny pauses it, any other key does not"
            ),
        ),
        Dialog::Confirm { queue, paused: false } => (
            " resume ",
            format!("Resume queue {queue}? Workers claim its jobs again.\n\ny resumes it, any other key does not"),
        ),
    };
    let area = frame.area();
    let lines = u16::try_from(text.lines().count()).unwrap_or(20) + 3;
    let (width, height) = (76.min(area.width), lines.min(area.height));
    let place = Rect::new((area.width - width) / 2, (area.height - height) / 2, width, height);
    let text: Vec<String> = text.lines().map(printable).collect();
    let block = Block::new().borders(Borders::ALL).title(title);
    frame.render_widget(Clear, place);
    frame.render_widget(Paragraph::new(text.join("\n")).wrap(Wrap { trim: false }).block(block), place);
}
