use chrono::Utc;
use diesel_jobs_core::history::{KindRate, Summary};
use diesel_jobs_core::storage::{Pause, QueueSettings};
use diesel_jobs_core::{CountedTo, HeldCounts, JobId, KindStats, LeasedJob, QueueCount, Stats, WorkerId};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::style::Color;

use super::super::draw::draw;
use super::*;

fn snapshot() -> Box<Snapshot> {
    let queue = |name: &str, available| QueueCount {
        queue: name.into(),
        available: CountedTo { jobs: available, limit: 10_000 },
        later: CountedTo { jobs: 1, limit: 10_000 },
        oldest_wait_seconds: Some(available as f64),
        oldest: Some(JobId(7)),
    };
    let kinds = vec![KindStats { queue: "mail".into(), kind: "send".into(), available: 3, ..KindStats::default() }];
    let work = Summary { completed: 500, retried: 500, ..Summary::default() };
    let paused = QueueSettings { name: "slow".into(), paused: Some(Pause::default()), slots: None };
    let job = LeasedJob {
        id: JobId(77),
        kind: "send\u{1b}[2J".into(),
        queue: "mail".into(),
        attempt: 2,
        worker: WorkerId::generate(),
        since: Utc::now(),
        // Its text is the same a minute later.
        seconds: 7_230.0,
    };
    let held = HeldCounts { queues: vec![("mail".into(), 5, 0)], is_whole: true };
    Box::new(Snapshot {
        at: Instant::now(),
        stats: Stats::new(
            vec![queue("mail", 3), queue("big", 10_000)],
            &held,
            &[("mail".into(), 1)],
            Some(kinds),
            None,
        ),
        rates: vec![KindRate { queue: "mail".into(), kind: "send".into(), seconds: 300.0, work }],
        workers: Vec::new(),
        jobs: vec![job],
        settings: vec![paused],
        frozen: None,
    })
}

fn model(has_colours: bool) -> Model {
    let mut model = Model::new("SQLite", has_colours);
    model.receive(Ok(snapshot()));
    model
}

fn press(model: &mut Model, keys: &str) -> Action {
    let key = |code| KeyEvent::new(code, KeyModifiers::NONE);
    let code = |letter| if letter == '\t' { KeyCode::Tab } else { KeyCode::Char(letter) };
    keys.chars().map(|letter| model.key(key(code(letter)))).last().unwrap_or(Action::Nothing)
}

fn screen(model: &mut Model, width: u16, height: u16) -> (String, bool) {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(frame, model)).unwrap();
    let cells = &terminal.backend().buffer().content;
    let has_colours = cells.iter().any(|cell| cell.fg != Color::Reset || cell.bg != Color::Reset);
    let lines = cells.chunks(usize::from(width)).map(|line| line.iter().map(|cell| cell.symbol()).collect::<String>());
    (lines.collect::<Vec<_>>().join("\n"), has_colours)
}

#[test]
fn the_screen_shows_queues_kinds_and_running_jobs() {
    let (text, _) = screen(&mut model(true), 120, 40);
    for part in [
        "10000+",
        "mail",
        "slow",
        "paused",
        "send",
        "50.0 %",
        "100",
        "2 h 0 min",
        "10003+ jobs due",
        "running (1)",
        "served by nobody",
    ] {
        assert!(text.contains(part), "{part:?} is missing:\n{text}");
    }
    assert!(!text.contains('\u{1b}'), "control characters of names are escaped");
}

/// The smallest terminal that people still use.
#[test]
fn no_figure_is_cut_in_80_columns() {
    let mut model = model(true);
    let (text, _) = screen(&mut model, 80, 24);
    for pane in [Pane::Queues, Pane::Kinds, Pane::Jobs] {
        for row in model.rows(pane) {
            let line = text
                .lines()
                .find(|line| line.starts_with(&*row.cells[0]))
                .unwrap_or_else(|| panic!("{row:?}:\n{text}"));
            let shown: Vec<_> = line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect();
            let is_cell = |shown: &str| {
                let start = shown.trim_end_matches("..");
                row.cells.iter().any(|cell| cell == shown || shown.ends_with("..") && cell.starts_with(start))
            };
            assert!(shown.iter().all(|cell| is_cell(cell)), "{shown:?} of {row:?}:\n{text}");
        }
    }
    for title in ["DUE", "OLDEST", "DONE/MIN", "FAILED", "SINCE"] {
        assert!(text.contains(title), "{title} is missing:\n{text}");
    }
    let first = text.lines().next().unwrap();
    assert!(first.trim_end().ends_with("ago") || first.trim_end().ends_with("yet"), "{first}");
}

#[test]
fn without_colours_there_are_none_and_every_size_can_be_drawn() {
    let mut plain = model(false);
    plain.problem = Some((Instant::now(), "connection refused".into()));
    let (text, has_colours) = screen(&mut plain, 120, 40);
    assert!(!has_colours && text.contains("cannot be read since") && text.contains("connection refused"), "{text}");
    assert!(screen(&mut model(true), 120, 40).1);
    for (width, height) in [(1, 1), (20, 3), (80, 10), (400, 100)] {
        for keys in ["", "?", "p"] {
            let mut model = model(true);
            press(&mut model, keys);
            screen(&mut model, width, height);
        }
    }
    screen(&mut Model::new("SQLite", true), 80, 24);
}

#[test]
fn the_selection_stays_on_its_row_when_the_order_changes() {
    let mut model = model(true);
    let selected = |model: &Model| {
        let rows = model.rows(Pane::Queues);
        rows[model.selection(Pane::Queues, &rows).unwrap()].name.clone()
    };
    assert_eq!((selected(&model).as_str(), model.sorted_by(Pane::Queues)), ("big", "due"));
    press(&mut model, "j");
    assert_eq!(selected(&model), "mail");
    press(&mut model, "sss");
    assert_eq!((selected(&model).as_str(), model.sorted_by(Pane::Queues)), ("mail", "name"));
    press(&mut model, "G");
    assert_eq!(selected(&model), "slow");
    press(&mut model, "gk");
    assert_eq!(selected(&model), "big");
}

#[test]
fn a_queue_is_paused_only_after_a_yes() {
    let mut model = model(true);
    assert_eq!(press(&mut model, "jp"), Action::Nothing);
    assert_eq!(model.dialog, Dialog::Confirm { queue: "mail".into(), paused: true });
    assert_eq!(press(&mut model, "q"), Action::Nothing, "any other key says no");
    assert_eq!(press(&mut model, "py"), Action::SetPaused { queue: "mail".into(), paused: true });
    assert_eq!(press(&mut model, "Gpy"), Action::SetPaused { queue: "slow".into(), paused: false });
    press(&mut model, "\tp");
    assert_eq!((model.focus, &model.dialog), (Pane::Kinds, &Dialog::None));
    assert!(model.message.as_ref().is_some_and(|message| message.contains("select a queue")));
}

#[test]
fn the_last_state_stays_while_the_database_is_away() {
    let mut model = model(true);
    model.receive(Err("no answer".into()));
    assert!(model.snapshot.is_some() && model.problem.is_some());
    model.receive(Ok(snapshot()));
    assert!(model.problem.is_none());
    assert_eq!(press(&mut model, "q"), Action::Quit);
}
