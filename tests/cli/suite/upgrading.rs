//! An upgrade by logical replication, which copies rows and no sequences.

use std::process::Command;

use cluster::{Own, Server};

use crate::support::{Db, Findings, Scratch, on_postgres, until, worker};

const BOOK: &str = include_str!("../../../docs/guide/runbooks.md");

/// Runs a command line that uses the programs of the server.
fn shell(line: &str, old: &str, new: &str) -> String {
    let bin = std::env::var("JOBS_TEST_PG_BIN").expect("JOBS_TEST_PG_BIN; run these tests with `cargo xtask test`");
    let path = format!("{bin}:{}", std::env::var("PATH").unwrap_or_default());
    let output = Command::new("sh")
        .args(["-euc", line])
        .env("PATH", path)
        .envs([("OLD_URL", old), ("NEW_URL", new), ("PGOPTIONS", "")])
        .output()
        .unwrap();
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Returns the command of the guide that copies the sequences.
fn copying() -> &'static str {
    let (_, section) = BOOK.split_once("\n## Upgrading by logical replication\n").expect("the section is there");
    let (_, block) = section.split_once("```sh\n").expect("a command");
    let (command, _) = block.split_once("```").expect("the end of the command");
    assert!(command.contains("setval"), "{command}");
    command
}

/// A row in each table whose rows are numbered by a sequence, and ids in use.
const NUMBERED: &str =
    "select jobs.enqueue('greet', json_build_object('name', repeat('x', 5000)), 'mail') from generate_series(1, 63);
    insert into jobs.job_error (job_id, attempt, kind, message) values (1, 1, 'error', 'no');
    insert into jobs.dead_letter (id, kind, queue, reason, job) values (1, 'greet', 'mail', 'no', '{}');
    insert into jobs.history (at, queue, kind) values (now(), 'mail', 'greet');
    insert into jobs.operation (action, filter, actor, last_id) values ('cancel', '{}', 'ada', 0);
    insert into jobs.audit (actor, action, target) values ('ada', 'pause', 'queue mail')";

#[test]
fn sequences_that_were_left_behind_are_named_and_copied() {
    let dir = Scratch::new();
    let server = Own::at(dir.path()).unwrap();
    server.prepare().unwrap();
    let old = Server::url(server.launch(None, "wal_level = logical").unwrap());
    let new = old.replace("/postgres", "/upgraded");
    let on = |url: &str, args: &[&str]| worker("fixture-worker").args(args).env("DATABASE_URL", url).run();
    on(&old, &["migrate"]).succeeded();
    on_postgres(&old, NUMBERED);
    on_postgres(&old, "create database upgraded");
    on_postgres(&old, "create publication everything for all tables");
    shell(r#"pg_dump --schema-only --no-publications "$OLD_URL" | psql --quiet "$NEW_URL""#, &old, &new);
    // On one server the slot cannot be created together with the subscription.
    on_postgres(&old, "select pg_create_logical_replication_slot('upgrade', 'pgoutput')");
    on_postgres(
        &new,
        &format!("create subscription upgrade connection '{old}' publication everything with (create_slot = false)"),
    );
    let waiting = r#"psql -Atc 'select count(*) from pg_subscription_rel where srsubstate <> $$r$$' "$NEW_URL""#;
    until(|| if shell(waiting, &old, &new) == "0\n" { Ok(()) } else { Err("tables are being copied") });
    on_postgres(&new, "drop subscription upgrade");

    let findings = || {
        let report = on(&new, &["doctor", "--json"]).json();
        let all = report["findings"].as_array().unwrap().clone();
        all.into_iter().filter(|one| one["check"] == "sequence").collect::<Vec<_>>()
    };
    let found = findings();
    let sequences =
        shell(r#"psql -Atc "select count(*) from pg_sequences where schemaname = 'jobs'" "$NEW_URL""#, &old, &new);
    assert_eq!(format!("{}\n", found.len()), sequences, "{found:#?}");
    assert_eq!(
        (&found[0]["severity"], &found[0]["repair"]),
        (&"error".into(), &"select setval('jobs.job_id', 63)".into()),
        "{found:#?}"
    );
    let mut process = worker("fixture-worker").args(["--queues", "default=1"]).env("DATABASE_URL", &new).start();
    process.await_line("the sequence jobs.job_id is at 0, and numbers up to 63 are in use");
    process.kill();

    shell(copying(), &old, &new);
    assert_eq!(findings(), [serde_json::Value::Null; 0]);
    let last = r#"psql -Atc 'select last_value from jobs.job_id' "$NEW_URL""#;
    assert_eq!(shell(last, &old, &new), "63\n");
}

/// Without the old server, each finding repairs its sequence.
#[test]
fn each_sequence_is_repaired_alone() {
    let db = Db::postgres().migrated();
    db.execute(NUMBERED);
    let found = || Findings::of(&db.run(&["doctor", "--json", "--objective", "1h"]));
    let sequences = |found: &Findings| found.checks().into_iter().filter(|one| one == "error:sequence").count();
    assert_eq!(sequences(&found()), 0);
    // The next number is used.
    db.execute("select setval('jobs.job_id', 62); select setval('jobs.audit_id_seq', 1, false)");
    let report = db.run(&["doctor", "--json"]).json();
    assert_eq!(sequences(&found()), 2, "{report:#}");
    for finding in report["findings"].as_array().unwrap().iter().filter(|one| one["check"] == "sequence") {
        db.execute(finding["repair"].as_str().unwrap());
    }
    assert_eq!(sequences(&found()), 0);
    db.execute("select jobs.enqueue('greet', '{\"name\": \"x\"}', 'mail')");
    assert_eq!(db.text("select max(id)::text as text from jobs.ready"), "64");
}
