//! The bad rows, each with a description and the expected result.

use std::time::Duration;

use anyhow::{Result, ensure};
use tokio_postgres::Client;
use torture::history::{CommitOutcome, Enqueued};
use torture::workload::{Shape, Work, new_job};

use crate::suite::fixture::number;

/// The numbers of long jobs whose ids are repeated begin at the first, those of transactional jobs with the id of an
/// earlier job at the second.
const LONG: i64 = 2_000_000;
const TRANSACTIONAL: i64 = 3_000_000;
/// Arguments that the handler accepts.
const ARGS: &str = r#"'{"text":"","number":1,"nested":null}'"#;
const POLL: Duration = Duration::from_millis(20);

/// One bad row.
pub(super) struct BadRow {
    pub(super) what: &'static str,
    id: i64,
    /// The expected number of rows with this id in `jobs.dead_letter`.
    apart: i64,
    /// The expected state of the job with this id, if one is left.
    ends: Option<&'static str>,
}

/// Columns with unusual values.
type Given = &'static [(&'static str, &'static str)];

/// Rows in `jobs.ready`, with the expected results.
const WAITING: [(&str, Given, i64, Option<&str>); 14] = [
    ("attempts at their end", &[("attempt", "32767"), ("max_attempts", "32767")], 1, None),
    ("leases at their end", &[("lease", "2147483647")], 1, None),
    ("crashes at their end", &[("crashes", "32767")], 0, Some("completed")),
    ("as many attempts as there are", &[("max_attempts", "32767")], 0, Some("completed")),
    ("due in the first year", &[("run_at", "'0001-01-01'")], 0, Some("completed")),
    ("enqueued in the first year", &[("enqueued_at", "'0001-01-01'")], 0, Some("completed")),
    ("due in the last year", &[("run_at", "'9999-12-31'")], 0, None),
    ("the lowest priority", &[("priority", "-32768")], 0, Some("completed")),
    ("the highest priority", &[("priority", "32767")], 0, Some("completed")),
    ("no tags", &[("tags", "'{}'")], 0, Some("completed")),
    (
        "many tags",
        &[("tags", "array(select repeat('x', 1000) || n from generate_series(1, 1000) n)")],
        0,
        Some("completed"),
    ),
    ("a queue with a long name", &[("queue", "repeat('q', 100000)")], 0, None),
    ("arguments that do not fit", &[("max_attempts", "2"), ("args", "'[1]'")], 0, Some("discarded")),
    ("a kind of a megabyte", &[("kind", "repeat('k', 1000000)")], 0, None),
];

/// Rows that `jobs.ready` refuses at the insert.
const REFUSED: [Given; 7] = [
    &[("attempt", "-1")],
    &[("lease", "-1")],
    &[("max_attempts", "0")],
    &[("run_at", "'infinity'")],
    &[("tags", "array['a', null]")],
    &[("tags", "array[array['a']]")],
    &[("kind", "null")],
];

/// Rows in `jobs.running` whose worker is not registered, with the expected results.
const RUNNING: [(&str, Given, i64, Option<&str>); 8] = [
    ("running, due at the end of time", &[("run_at", "'infinity'")], 1, None),
    ("running, enqueued at its beginning", &[("enqueued_at", "'-infinity'")], 1, None),
    ("running, with half a tag", &[("tags", "array['a', null]")], 1, None),
    ("running, in a queue with a long name", &[("queue", "repeat('q', 9000)")], 1, None),
    ("running, with too large arguments", &[("args", "json_build_array(repeat('x', 300000))")], 1, None),
    ("running, leases at their end", &[("lease", "2147483647")], 1, None),
    ("running, attempts at their end", &[("attempt", "32767"), ("max_attempts", "32767")], 0, Some("discarded")),
    ("running, crashes at their end", &[("crashes", "32767")], 0, Some("discarded")),
];

/// The usual values.
const USUAL: [(&str, &str); 2] = [("kind", "'hostile'"), ("args", ARGS)];
const USUALLY_RUNNING: [(&str, &str); 10] = [
    ("id", "nextval('jobs.job_id')"),
    ("run_at", "now()"),
    ("enqueued_at", "now()"),
    ("lease", "1"),
    ("priority", "0"),
    ("attempt", "1"),
    ("max_attempts", "25"),
    ("crashes", "0"),
    ("worker", "gen_random_uuid()"),
    ("queue", "'default'"),
];

/// Returns the statement that inserts a row with these values into `jobs.ready` or `jobs.running` and returns its id.
fn insert(table: &str, given: &[(&str, &str)]) -> String {
    let running: &[(&str, &str)] = if table == "running" { &USUALLY_RUNNING } else { &[] };
    let usual = USUAL.iter().chain(running).filter(|(column, _)| given.iter().all(|(named, _)| named != column));
    let (columns, values): (Vec<&str>, Vec<&str>) = usual.chain(given).copied().unzip();
    format!("insert into jobs.{table} ({}) values ({}) returning id", columns.join(", "), values.join(", "))
}

pub(super) async fn waiting(conn: &Client) -> Result<Vec<BadRow>> {
    let mut bad_rows = Vec::new();
    for (what, given, apart, ends) in WAITING {
        bad_rows.push(BadRow { what, id: number(conn, &insert("ready", given)).await?, apart, ends });
    }
    for given in REFUSED {
        ensure!(conn.batch_execute(&insert("ready", given)).await.is_err(), "a row with {given:?} was let in");
    }
    Ok(bad_rows)
}

pub(super) async fn running(conn: &Client) -> Result<Vec<BadRow>> {
    let mut bad_rows = Vec::new();
    for (what, given, apart, ends) in RUNNING {
        bad_rows.push(BadRow { what, id: number(conn, &insert("running", given)).await?, apart, ends });
    }
    Ok(bad_rows)
}

/// Inserts rows with the id of another job: one that waits, one that runs, and some that have ended.
pub(super) async fn repeated(conn: &Client, round: i64) -> Result<(Vec<BadRow>, Vec<Enqueued>)> {
    let twice = number(conn, "select nextval('jobs.job_id')").await?;
    let pair = insert("ready", &[("id", &twice.to_string())]);
    conn.batch_execute(&format!("begin; {pair}; {pair}; commit")).await?;
    let (of_ended, of_history, of_transaction) = (ended(conn).await?, ended(conn).await?, ended(conn).await?);
    let long = Work::new(LONG + round, Shape::Async).lasting(700);
    let transactional = Work::new(TRANSACTIONAL + round, Shape::Transactional);
    let of_running = enqueue(conn, "nextval('jobs.job_id')", &long).await?;
    enqueue(conn, &of_transaction.to_string(), &transactional).await?;
    number(conn, &insert("ready", &[("id", &of_ended.to_string())])).await?;
    let lost = [("id", &*of_history.to_string()), ("attempt", "2"), ("max_attempts", "2")];
    number(conn, &insert("running", &lost)).await?;
    while number(conn, &format!("select count(*) from jobs.running where id = {of_running}")).await? == 0 {
        tokio::time::sleep(POLL).await;
    }
    number(conn, &insert("ready", &[("id", &of_running.to_string())])).await?;
    let bad_rows = [
        ("two of one id", twice, "completed"),
        ("the id of a running job", of_running, "completed"),
        ("the id of a job that has ended", of_ended, "completed"),
        ("the id of a job that has ended, in a transaction", of_transaction, "completed"),
        ("the id of a job that has ended, running and lost", of_history, "discarded"),
    ];
    let bad_rows = bad_rows.map(|(what, id, ends)| BadRow { what, id, apart: 1, ends: Some(ends) });
    let others = [(long, of_running), (transactional, of_transaction)];
    Ok((bad_rows.into(), others.map(|(work, id)| work.enqueued(Some(id), CommitOutcome::Acknowledged)).into()))
}

/// Enqueues this job under this id. Returns the id.
async fn enqueue(conn: &Client, id: &str, work: &Work) -> Result<i64> {
    let job = new_job(work)?;
    let (kind, args) = (format!("'{}'", job.kind), format!("$args${}$args$", job.args));
    number(conn, &insert("ready", &[("id", id), ("kind", &kind), ("args", &args)])).await
}

/// Runs a job to its end, and returns its id. The test uses it for nothing else.
async fn ended(conn: &Client) -> Result<i64> {
    let id = number(conn, &insert("ready", &[])).await?;
    while number(conn, &format!("select count(*) from jobs.finished where id = {id}")).await? == 0 {
        tokio::time::sleep(POLL).await;
    }
    Ok(id)
}

/// Deletes the rows that no worker can claim. Returns `false` if some of them were not there any more.
pub(super) async fn settle(conn: &Client, bad_rows: &[BadRow]) -> Result<bool> {
    let waiting: Vec<i64> = bad_rows
        .iter()
        .filter(|bad_row| bad_row.apart == 0 && bad_row.ends.is_none())
        .map(|bad_row| bad_row.id)
        .collect();
    let gone = conn.execute("delete from jobs.ready where id = any($1)", &[&waiting]).await?;
    Ok(usize::try_from(gone)? == waiting.len())
}

impl BadRow {
    /// Returns what differs from the expected result.
    pub(super) async fn complaint(&self, conn: &Client) -> Result<Option<String>> {
        let apart = number(conn, &format!("select count(*) from jobs.dead_letter where id = {}", self.id)).await?;
        let states = conn.query("select state from jobs.job where id = $1", &[&self.id]).await?;
        let states: Vec<String> = states.iter().map(|row| row.get(0)).collect();
        let as_expected = apart == self.apart && states == Vec::from_iter(self.ends);
        Ok((!as_expected).then(|| format!("set apart {apart} times, and {states:?}")))
    }
}
