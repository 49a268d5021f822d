//! Dumps and copies: everything is restored, nothing runs before an operator allows it, and then each job runs once.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use fixture_app::{Charge, Greet, WaitFor};
use jobs::Job as _;

use crate::support::http::{address, await_searches};
use crate::support::{Db, Gate, Run, Running, Scratch, until, worker};

/// The number of jobs that wait in the dump.
const WAITING: usize = 300;

fn program(name: &str) -> Command {
    let bin = std::env::var("JOBS_TEST_PG_BIN").expect("JOBS_TEST_PG_BIN; run these tests with `cargo xtask test`");
    Command::new(PathBuf::from(bin).join(name))
}

fn succeed(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn dump(db: &Db, scratch: &Scratch, options: &[&str]) -> String {
    let file = scratch.path().join("dump");
    succeed(program("pg_dump").args(options).arg("--file").arg(&file).arg(&db.url));
    file.to_str().unwrap().to_owned()
}

fn restore(db: &Db, options: &[&str], file: &str) {
    succeed(program("pg_restore").arg("--exit-on-error").args(options).arg("--dbname").arg(&db.url).arg(file));
}

/// Returns the definition of the schema as `pg_dump` prints it, without the lines that differ in each dump.
fn definition(db: &Db) -> String {
    let text = succeed(program("pg_dump").args(["--schema-only", "--schema", "jobs"]).arg(&db.url));
    text.lines().filter(|line| !line.contains("restrict ")).map(|line| format!("{line}\n")).collect()
}

/// Returns a hash of the contents of each table and of the view, and the state of each sequence.
fn contents(db: &Db) -> String {
    db.text(
        "with relation (name) as (
             select c.relname::text from pg_class c where c.relnamespace = 'jobs'::regnamespace and c.relkind in ('r', 'v', 'S')
         )
         select string_agg(name || ' ' || (xpath('//text/text()', query_to_xml(format(
                case when name ~ '_id$|_seq$' then 'select last_value || '' '' || is_called as text from jobs.%I'
                     else 'select count(*) || '' '' || coalesce(md5(string_agg(t::text, '','' order by t::text)), '''') as text from jobs.%I t' end,
                name), false, true, '')))[1]::text, e'\\n' order by name) as text
         from relation",
    )
}

fn start_in(db: &Db, environment: &str, args: &[&str]) -> Running {
    worker("fixture-worker").args(args).env("DATABASE_URL", &db.url).env("JOBS_ENVIRONMENT", environment).start()
}

fn greet(name: &str) -> Greet {
    Greet { name: name.to_owned() }
}

/// The jobs in the dump.
struct Original {
    running: i64,
    /// What the running job waits for.
    gate: Gate,
    waiting: Vec<i64>,
    later: i64,
    completed: i64,
    discarded: i64,
}

/// Prepares a database of `production` with jobs in all states. Its worker has just been killed.
fn original(db: &Db) -> Original {
    db.run(&["environment", "set", "production", "--actor", "anna"]).succeeded();
    let large = "x".repeat(5000);
    let (completed, discarded) = (db.enqueue(greet(&large)), db.enqueue(Charge { card: "c".to_owned() }));
    let mut first = start_in(db, "production", &[]);
    db.await_state(completed, "completed");
    db.await_state(discarded, "discarded");
    first.kill();
    let mut victim = start_in(db, "production", &["--queues", "default=1"]);
    let gate = Gate::closed();
    let running = db.enqueue(WaitFor { file: gate.file() });
    db.execute(&format!(
        "select jobs.enqueue('greet', json_build_object('name', case when n % 50 = 0 then '{large}' else 'x' end), 'mail')
         from generate_series(1, {WAITING}) n",
    ));
    db.await_state(running, "running");
    victim.kill();
    let waiting = db.text("select json_agg(id order by id)::text as text from jobs.ready");
    let waiting: Vec<i64> = serde_json::from_str(&waiting).unwrap();
    assert_eq!(waiting.len(), WAITING);
    let later = db.enqueue(greet("later").delay(Duration::from_secs(3600)));
    assert_eq!(db.json(&["show", &running.to_string()])["state"], "running");
    db.execute(
        "insert into jobs.schedule (name, kind, expression, timezone, catch_up, last_tick)
         values ('by hand', 'greet', '0 0 2 1 1 *', 'Europe/Paris', 'last', '2020-02-03 04:05:06.789012+00');
         insert into jobs.queue (name, paused) values ('slow', true);",
    );
    Original { running, gate, waiting, later, completed, discarded }
}

/// Checks that each job of the dump ends once: those that waited at their first attempt, the one that ran at its
/// second. Those that had ended do not run again.
fn each_runs_once(db: &Db, original: &Original) {
    let before = db.text("select json_agg(f order by id)::text as text from jobs.finished f");
    original.gate.open();
    let _worker = start_in(db, "staging", &["--lease", "10s"]);
    let running = db.await_state(original.running, "completed");
    assert_eq!((running["attempt"].as_i64(), running["crashes"].as_i64()), (Some(2), Some(1)), "{running}");
    original.waiting.last().map(|last| db.await_state(*last, "completed"));
    // A busy worker may give jobs back that it has prefetched. That ends a lease, and consumes no attempt.
    let once = "state = 1 and attempt = 1 and crashes = 0";
    let waited = original.waiting.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    until(|| {
        let ended = db.count(&format!("jobs.finished where {once} and id in ({waited})"));
        let jobs = || db.text("select json_agg(j)::text as text from jobs.job j");
        if ended == i64::try_from(WAITING).unwrap() { Ok(()) } else { Err(jobs()) }
    });
    assert_eq!(db.json(&["show", &original.later.to_string()])["state"], "scheduled");
    let ended = format!("id in ({}, {})", original.completed, original.discarded);
    let after = db.text(&format!("select json_agg(f order by id)::text as text from jobs.finished f where {ended}"));
    assert_eq!(before, after);
    // The sequence continues after the largest id, so no id is assigned twice.
    let new = db.enqueue(greet("new"));
    assert!(new > original.later, "{new}");
    db.await_state(new, "completed");
}

fn round_trip(dump_with: &[&str], restore_with: &[&str]) {
    let (scratch, db, copy) = (Scratch::new(), Db::postgres().migrated(), Db::postgres());
    let original = original(&db);
    let file = dump(&db, &scratch, dump_with);
    restore(&copy, restore_with, &file);
    assert_eq!(definition(&copy), definition(&db));
    let whole = contents(&db);
    assert!(
        whole.contains(&format!("ready {} ", WAITING + 1))
            && whole.contains("job_id ")
            && whole.contains("job_error 1 "),
        "{whole}"
    );
    assert_eq!(contents(&copy), whole);

    // The copy belongs to production. Staging's workers claim nothing in it until it is renamed.
    worker("fixture-worker")
        .env("DATABASE_URL", &copy.url)
        .env("JOBS_ENVIRONMENT", "staging")
        .run()
        .exited(1)
        .complained(&["belongs to the environment `production`"]);
    adopt(&copy, &["--keep-jobs"]);
    each_runs_once(&copy, &original);
}

/// Renames the copy when the workers of the dump count as dead, whose heartbeats are part of the dump.
fn adopt(copy: &Db, args: &[&str]) -> Run {
    copy.let_leases_end();
    copy.run(&[&["environment", "set", "staging", "--actor", "anna"], args].concat()).succeeded()
}

#[test]
fn the_whole_database_comes_back_from_a_dump() {
    round_trip(&["--format", "custom"], &[]);
}

#[test]
fn the_schema_alone_comes_back_from_a_dump() {
    round_trip(&["--format", "custom", "--schema", "jobs"], &[]);
}

#[test]
fn a_dump_is_restored_by_two_at_once() {
    round_trip(&["--format", "custom"], &["--jobs", "2"]);
}

/// `pg_restore` restores the table `payload` before `ready`. With `--jobs 2` it may not, and then the trigger of
/// `ready` finds no arguments.
#[test]
fn the_data_alone_comes_back_into_a_migrated_schema() {
    for together in [&[][..], &["--jobs", "2"]] {
        let (scratch, db, copy) = (Scratch::new(), Db::postgres().migrated(), Db::postgres().migrated());
        let original = original(&db);
        let file =
            dump(&db, &scratch, &["--format", "custom", "--data-only", "--exclude-table", "jobs.schema_migration"]);
        restore(&copy, &[&["--data-only", "--disable-triggers"], together].concat(), &file);
        let ledger = |contents: String| {
            contents.lines().filter(|line| !line.starts_with("schema_migration")).collect::<String>()
        };
        assert_eq!(ledger(contents(&copy)), ledger(contents(&db)));
        adopt(&copy, &["--keep-jobs"]);
        each_runs_once(&copy, &original);
    }
}

#[test]
fn a_frozen_database_is_frozen_in_the_copy() {
    let (scratch, db, copy) = (Scratch::new(), Db::postgres().migrated(), Db::postgres());
    let id = db.enqueue(greet("x"));
    db.run(&["freeze", "--reason", "dumped for a look", "--actor", "anna"]).succeeded();
    restore(&copy, &[], &dump(&db, &scratch, &["--format", "custom"]));
    assert!(copy.run(&["stats"]).succeeded().stdout.contains("by anna: dumped for a look"));
    let mut worker = copy.start(&["--poll-interval", "50ms", "--listen", "127.0.0.1:0"]);
    let address = address(&mut worker);
    worker.await_line("by anna: dumped for a look");
    await_searches(&address);
    assert_eq!(copy.json(&["show", &id.to_string()])["state"], "available");
    copy.run(&["thaw", "--actor", "anna"]).succeeded();
    copy.await_state(id, "completed");
    // The original is still frozen.
    assert!(db.run(&["stats"]).succeeded().stdout.contains("frozen since"));
}

/// As when staging is refreshed every night: its workers continue, and find production's jobs in their database.
#[test]
fn a_running_worker_does_not_touch_jobs_that_are_restored_into_its_database() {
    let (scratch, db, staging) = (Scratch::new(), Db::postgres().migrated(), Db::postgres().migrated());
    let original = original(&db);
    staging.run(&["environment", "set", "staging", "--actor", "anna"]).succeeded();
    let mut worker =
        start_in(&staging, "staging", &["--poll-interval", "50ms", "--lease", "10s", "--listen", "127.0.0.1:0"]);
    let address = address(&mut worker);
    staging.await_state(staging.enqueue(greet("own")), "completed");

    let file = dump(&db, &scratch, &["--format", "custom", "--schema", "jobs"]);
    restore(&staging, &["--clean"], &file);
    worker.await_line("belongs to the environment `production`");
    staging.let_leases_end();
    await_searches(&address);
    let waiting = staging.count("jobs.ready");
    assert_eq!(waiting, i64::try_from(WAITING + 1).unwrap(), "those that wait, and the later one");

    let said = staging.run(&["environment", "set", "staging", "--cancel-jobs", "--actor", "anna"]).succeeded().stdout;
    assert!(said.starts_with(&format!("cancelled {} jobs", WAITING + 2)), "{said}");
    staging.await_state(staging.enqueue(greet("own")), "completed");
    assert_eq!(staging.json(&["show", &original.waiting[0].to_string()])["state"], "cancelled");
}

#[test]
fn a_copied_file_is_left_alone_elsewhere() {
    let (db, scratch) = (Db::sqlite().migrated(), Scratch::new());
    db.run(&["environment", "set", "production", "--actor", "anna"]).succeeded();
    let id = db.enqueue(greet("x"));
    db.execute("pragma wal_checkpoint(truncate)");
    let file = scratch.path().join("copy.db");
    std::fs::copy(db.file(), &file).unwrap();
    let url = format!("sqlite://{}", file.display());
    let on_copy = |args: &[&str]| {
        worker("fixture-worker").args(args).env("DATABASE_URL", &url).env("JOBS_ENVIRONMENT", "staging")
    };
    on_copy(&[]).run().exited(1).complained(&["belongs to the environment `production`"]);
    on_copy(&["environment", "set", "staging", "--cancel-jobs", "--actor", "anna"]).run().succeeded();
    let mut worker = on_copy(&[]).start();
    worker.await_line("worker started");
    let show = on_copy(&["show", &id.to_string(), "--json"]).run().succeeded().json();
    assert_eq!(show["state"], "cancelled");
    // The job still waits in the original.
    assert_eq!(db.json(&["show", &id.to_string()])["state"], "available");
}
