//! `top` in a real terminal: tmux runs it, types keys and reads the screen.

use std::process::Command;

use fixture_app::{Greet, HOUR, Wait};
use serde_json::json;

use crate::support::{Db, Terminal, on_postgres, worker};

/// Types the command that runs `top`, and waits for its first screen.
pub(crate) fn start(terminal: &Terminal, url: &str, before: &str, options: &str) {
    let program = env!("CARGO_BIN_EXE_fixture-worker");
    let command = format!("clear; {before} DATABASE_URL='{url}' {program} top --interval 200ms {options}");
    terminal.keys(&[&command, "Enter"]);
    terminal.await_text("worker top");
    terminal.await_text("queues (");
}

/// Whether the screen has a letter in a colour. Bold and reversed letters have none.
fn has_colours(screen: &str) -> bool {
    let codes = screen.split("\u{1b}[").skip(1).filter_map(|rest| rest.split_once('m'));
    codes.flat_map(|(codes, _)| codes.split(';')).any(|code| matches!(code.parse(), Ok(30..=38 | 90..=97)))
}

on_each_database! {
    fn top_shows_jobs_takes_keys_and_gives_the_terminal_back(db) {
        let db = db.migrated();
        db.enqueue(Greet { name: "x".to_owned() });
        let busy = db.enqueue(Wait { millis: HOUR });
        let mut worker = db.start(&["--queues", "default=3"]);
        db.await_state(busy, "running");
        let terminal = Terminal::open(120, 40);
        start(&terminal, &db.url, "", "--actor anna");
        let all = ["mail", "wait", "running (1)", "1 worker alive", "1 job due, 0.0 completed"];
        terminal.await_screen("the jobs and their worker", |screen| all.iter().all(|part| screen.contains(part)));
        let screen = terminal.colours();
        assert!(has_colours(&screen), "the table with the focus has a colour: {screen:?}");

        terminal.keys(&["?"]);
        terminal.await_text("any key closes this help");
        terminal.keys(&["x"]);
        terminal.await_screen("no help", |screen| !screen.contains("any key closes"));

        // By name, the last of them is `mail`.
        terminal.keys(&["s", "s", "s"]);
        terminal.await_text("by name");
        terminal.keys(&["G", "p"]);
        terminal.await_text("Pause queue mail?");
        terminal.keys(&["n"]);
        terminal.await_text("queue mail was not changed");
        terminal.keys(&["p"]);
        terminal.await_text("Pause queue mail?");
        terminal.keys(&["y"]);
        terminal.await_text("by anna: paused in");
        terminal.keys(&["p"]);
        terminal.await_text("Resume queue mail?");
        terminal.keys(&["y"]);
        terminal.await_text("queue mail is resumed");

        terminal.tmux(&["resize-window", "-x", "80", "-y", "15"]);
        terminal.await_screen("one table", |screen| screen.contains("queues (") && !screen.contains("workers ("));
        terminal.keys(&["Tab", "Tab"]);
        terminal.await_text("workers (1)");
        terminal.tmux(&["resize-window", "-x", "120", "-y", "40"]);
        terminal.await_screen("all tables", |screen| screen.contains("queues (") && screen.contains("running (1)"));

        worker.kill();
        terminal.keys(&["q"]);
        terminal.await_shell();
    }

    fn top_has_no_colours_if_asked_and_ends_on_signals(db) {
        let db = db.migrated();
        let terminal = Terminal::open(100, 30);
        for (before, options) in [("NO_COLOR=1", ""), ("", "--no-color")] {
            start(&terminal, &db.url, before, options);
            let screen = terminal.colours();
            assert!(!has_colours(&screen), "{screen:?}");
            terminal.keys(&["C-c"]);
            terminal.await_shell();
        }
        for signal in ["TERM", "INT"] {
            start(&terminal, &db.url, "", "");
            let program = env!("CARGO_BIN_EXE_fixture-worker");
            let pane = terminal.tmux(&["display-message", "-p", "#{pane_pid}"]);
            let pids = Command::new("pgrep").args(["-P", pane.trim(), "-f", program]).output().unwrap();
            let pid = String::from_utf8(pids.stdout).unwrap();
            assert!(Command::new("kill").args([&format!("-{signal}"), pid.trim()]).status().unwrap().success());
            terminal.await_shell();
        }
    }
}

#[test]
fn top_shows_that_the_database_is_away_and_survives_it() {
    let db = Db::postgres().migrated();
    let terminal = Terminal::open(120, 30);
    start(&terminal, &db.url, "", "");
    let (server, name) = db.server();
    on_postgres(server, &format!("alter database {name} allow_connections false"));
    on_postgres(server, &format!("select pg_terminate_backend(pid) from pg_stat_activity where datname = '{name}'"));
    terminal.await_text("the database cannot be read since");
    on_postgres(server, &format!("alter database {name} allow_connections true"));
    terminal
        .await_screen("the database again", |screen| !screen.contains("cannot be read") && screen.contains("q quit"));
    terminal.keys(&["q"]);
    terminal.await_shell();
}

#[test]
fn top_needs_a_terminal() {
    let db = Db::sqlite().migrated();
    db.run(&["top"]).exited(2).complained(&["needs a terminal", "stats --json"]);
    let run = worker("fixture-worker").args(["top", "--interval", "0s"]).env("DATABASE_URL", &db.url).run();
    run.exited(2).complained(&["must be longer than 0"]);
    assert_eq!(db.json(&["stats"])["rates"], json!([]));
}
