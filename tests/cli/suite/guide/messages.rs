//! Messages that the documentation quotes in its text and in its table of messages. `..` stands for what differs from
//! case to case.

use std::fs;
use std::path::Path;

use crate::page::root;
use crate::support::{Db, Scratch, worker};

/// Texts outside tables and blocks.
const QUOTED: [(&str, &str); 5] = [
    ("docs/guide/flow-control.md", "its limit `..` was full``"),
    ("docs/guide/flow-control.md", "its limit `..` was full, and newer jobs took its place"),
    ("docs/guide/flow-control.md", "expired: its first attempt did not start in time"),
    ("docs/guide/handlers.md", "there is no `..` with the primary key .."),
    ("docs/guide/troubleshooting.md", "died with the job"),
];

/// Where a message comes from.
enum Origin {
    /// A command prints it.
    Printed(String),
    /// No command of the fixture can print it. It is in the sources, with these fixed parts.
    Sources(&'static str),
    /// The database itself.
    Database,
}

/// Whether the text contains these parts in this order.
fn contains(text: &str, parts: &str) -> bool {
    let mut rest = text;
    parts.split("..").all(|part| rest.find(part).map(|at| rest = &rest[at + part.len()..]).is_some())
}

/// The text of all sources. Literals that continue on the next line are joined.
fn sources() -> String {
    let mut text = String::new();
    for dir in ["src", "jobs-core/src", "jobs-diesel/src"] {
        read(&root().join(dir), &mut text);
    }
    text.split("\\\n").map(str::trim_start).collect()
}

fn read(dir: &Path, text: &mut String) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            read(&path, text);
        } else if path.extension().is_some_and(|name| name == "rs") {
            text.push_str(&fs::read_to_string(&path).unwrap());
        }
    }
}

/// What a worker complains of at this URL.
fn complaint(url: &str) -> Origin {
    let run = worker("fixture-worker").args(["run"]).env("DATABASE_URL", url).run();
    assert_ne!(run.code, 0, "{run:#?}");
    Origin::Printed(run.stderr)
}

fn origin(message: &str) -> Origin {
    match message {
        text if text.starts_with("the tables of `diesel-jobs` are missing") => complaint(&Db::postgres().url),
        text if text.starts_with("the SQLite file jobs.db is missing") => {
            let dir = Scratch::new();
            let run =
                worker("fixture-worker").in_dir(dir.path()).args(["run"]).env("DATABASE_URL", "sqlite://jobs.db").run();
            Origin::Printed(run.exited(4).stderr)
        }
        text if text.starts_with("the schema of `diesel-jobs` is at version") => {
            let db = Db::sqlite().migrated();
            db.execute("update jobs.schema_migration set version = version - 1");
            complaint(&db.url)
        }
        text if text.starts_with("this server is PostgreSQL 13") => {
            Origin::Sources("this server is PostgreSQL .., and `diesel-jobs` needs PostgreSQL 14 or newer")
        }
        text if text.starts_with("the encoding of this database") => {
            Origin::Sources("the encoding of this database is ..")
        }
        text if text.starts_with("the server refuses the credentials") => {
            Origin::Sources("the server refuses the credentials")
        }
        text if text.starts_with("the server asks for a password") => {
            Origin::Sources("the server asks for a password, and none was given")
        }
        text if text.starts_with("the environment variable PG") => {
            let url = "postgres://127.0.0.1:1/app";
            let run = worker("fixture-worker").args(["stats"]).env("DATABASE_URL", url).env("PGSERVICE", "app").run();
            Origin::Printed(run.exited(2).stderr)
        }
        text if text.ends_with("is itself a URL") => {
            let run = worker("fixture-worker").args(["run"]).env("DATABASE_URL_FILE", "postgres://me@host/app").run();
            Origin::Printed(run.exited(2).stderr)
        }
        text if text.ends_with("begins with a quotation mark") => complaint("'sqlite://app.db'"),
        text if text.contains("JSON cannot express NaN") => {
            Origin::Sources("its arguments cannot be written as JSON: ..")
        }
        text if text.ends_with("levels deep") => Origin::Sources("its arguments are nested more than .. levels deep"),
        text if text.ends_with("not a valid PostgreSQL URL") => complaint("postgres://user:p@ss@host:5432/database"),
        text if text.ends_with("without a scheme") => complaint("app.db"),
        text if text.ends_with("was built for SQLite only") => {
            Origin::Sources("the database URL means .., and this program was built for .. only")
        }
        "canceling statement due to lock timeout"
        | "database is locked (SQLite)"
        | "could not serialize access; deadlock detected"
        | "too many notifications in the NOTIFY queue" => Origin::Database,
        text => panic!("say in this test where this message comes from: {text}"),
    }
}

#[test]
fn the_messages_in_the_table_of_troubleshooting_are_real() {
    let page = fs::read_to_string(root().join("docs/guide/troubleshooting.md")).unwrap();
    let (_, table) = page.split_once("| message | cause and action |\n|---|---|\n").unwrap();
    let rows: Vec<&str> = table.lines().map_while(|line| line.strip_prefix("| ")).collect();
    assert!(rows.len() >= 7, "{rows:?}");
    let sources = sources();
    for message in rows.iter().map(|row| row.split(" | ").next().unwrap()) {
        match origin(message) {
            Origin::Printed(text) => assert!(contains(&text, message), "{message}: {text}"),
            Origin::Sources(parts) => assert!(contains(message, parts) && contains(&sources, parts), "{message}"),
            Origin::Database => {}
        }
    }
}

#[test]
fn the_messages_that_pages_quote_are_in_the_sources() {
    let sources = sources();
    for (page, quote) in QUOTED {
        let text = fs::read_to_string(root().join(page)).unwrap();
        assert!(text.lines().any(|line| contains(line, quote)), "{page} does not quote {quote:?}");
        let message = quote.trim_end_matches('`');
        assert!(sources.lines().any(|line| contains(line, message)), "no source has {message:?}, which {page} quotes");
    }
}
