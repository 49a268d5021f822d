//! The hostile payloads, each with a description and the expected result.

use std::collections::HashMap;

use anyhow::Result;
use diesel_async::AsyncPgConnection;
use diesel_jobs::enqueue::{IntoNewJob as _, InvalidJob};
use diesel_jobs::{Enqueue as _, Job as _, NewJob};
use serde_json::Value;
use tokio_postgres::{Client, Error};
use torture::workload::hostile::{Hostile, Unwritable};

/// The expected result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expected {
    /// It is not enqueued.
    Refused,
    /// It runs, and completes.
    Run,
    /// All its attempts fail, because its arguments cannot be read.
    Unread,
    /// Refused or unread. The server's versions may differ in what they accept.
    NotRun,
}

/// One hostile payload.
pub(super) struct HostilePayload {
    pub(super) what: String,
    pub(super) expected: Expected,
    /// Its id if it was accepted. Otherwise `refusal` is the reason.
    pub(super) id: Option<i64>,
    pub(super) refusal: String,
}

impl HostilePayload {
    fn new(what: impl Into<String>, expected: Expected, result: Result<i64, String>) -> Self {
        let (id, refusal) = result.map_or_else(|refusal| (None, refusal), |id| (Some(id), String::new()));
        Self { what: what.into(), expected, id, refusal }
    }
}

fn job(text: &str, number: f64, nested: Value) -> Hostile {
    Hostile { text: text.to_owned(), number, nested }
}

/// Lists in lists, `depth` levels deep.
fn nested(depth: usize) -> Value {
    (0..depth).fold(Value::Null, |value, _| Value::Array(vec![value]))
}

/// Payloads that a program can make with the product's types.
fn typed() -> Vec<(&'static str, Result<NewJob, InvalidJob>, Expected)> {
    let plain = || job("", 1.0, Value::Null);
    vec![
        ("NUL in a text", job("before \0 after", 1.0, Value::from("\0")).into_new_job(), Expected::Run),
        (
            "odd characters",
            job("\u{202e}\u{feff}\u{10ffff}\u{fffd}\\ud800'\"", 1.0, Value::Null).into_new_job(),
            Expected::Run,
        ),
        ("a large number", job("", f64::MAX, Value::from(u64::MAX)).into_new_job(), Expected::Run),
        ("no number", job("", f64::NAN, Value::Null).into_new_job(), Expected::Refused),
        ("an endless number", job("", f64::INFINITY, Value::Null).into_new_job(), Expected::Refused),
        ("some nesting", job("", 1.0, nested(100)).into_new_job(), Expected::Run),
        ("much nesting", job("", 1.0, nested(1_000)).into_new_job(), Expected::Refused),
        ("200 KiB", job(&"x".repeat(200 << 10), 1.0, Value::Null).into_new_job(), Expected::Run),
        ("300 KiB", job(&"x".repeat(300 << 10), 1.0, Value::Null).into_new_job(), Expected::Refused),
        ("60 KiB of NUL", job(&"\0".repeat(60 << 10), 1.0, Value::Null).into_new_job(), Expected::Refused),
        ("megabytes", job(&"é".repeat(4 << 20), 1.0, Value::Null).into_new_job(), Expected::Refused),
        ("no JSON", Unwritable { map: HashMap::from([(vec![0], 0)]) }.into_new_job(), Expected::Refused),
        ("NUL in a queue", plain().queue("a\0b").into_new_job(), Expected::Refused),
        ("NUL in a tag", plain().tags(["a\0b"]).into_new_job(), Expected::Refused),
        ("NUL in a kind", NewJob::raw("a\0b", "{}").into_new_job(), Expected::Refused),
    ]
}

/// Texts that callers and other programs may pass as JSON.
fn texts() -> Vec<(&'static str, String, Expected)> {
    let text = |text: &str| format!(r#"{{"text":{text},"number":1,"nested":null}}"#);
    let deep = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    vec![
        ("escaped NUL", text(r#""\u0000""#), Expected::Run),
        ("half a surrogate", text(r#""\ud800""#), Expected::Unread),
        ("the other half", text(r#""\udc00x""#), Expected::Unread),
        ("a text that is a number", text("1"), Expected::Unread),
        ("a number beyond all", text(r#""","number":1e999"#), Expected::Unread),
        ("a field twice", text(r#""","text":"""#), Expected::Unread),
        ("an unknown field", text(r#""","other":"\u0000""#), Expected::Run),
        ("null", "null".to_owned(), Expected::Unread),
        ("a list", "[1]".to_owned(), Expected::Unread),
        ("deep lists", deep(1_000), Expected::NotRun),
        ("deeper lists", deep(100_000), Expected::NotRun),
        ("nothing", String::new(), Expected::Refused),
        ("half an object", "{".to_owned(), Expected::Refused),
        ("no number", text("NaN"), Expected::Refused),
        ("an invisible mark", "\u{feff}{}".to_owned(), Expected::NotRun),
    ]
}

/// Enqueues them through the product.
pub(super) async fn enqueue(conn: &mut AsyncPgConnection) -> Vec<HostilePayload> {
    let mut payloads = Vec::new();
    for (what, job, expected) in typed() {
        let result = match job {
            Ok(job) => job.enqueue(conn).await.map(|id| id.0).map_err(|error| error.to_string()),
            Err(invalid) => Err(invalid.to_string()),
        };
        payloads.push(HostilePayload::new(what, expected, result));
    }
    let texts = texts().into_iter().chain([("NUL itself", "\"\0\"".to_owned(), Expected::Refused)]);
    for (what, text, expected) in texts {
        let mut job = NewJob::raw("hostile", text);
        job.max_attempts = 2;
        let result = job.enqueue(conn).await.map(|id| id.0).map_err(|error| error.to_string());
        payloads.push(HostilePayload::new(format!("{what}, raw"), expected, result));
    }
    payloads
}

const INSERT: &str = "insert into jobs.ready (kind, max_attempts, args) values ('hostile', 2, ";
/// The same, but due after a day, so that it can be changed before a worker claims it.
const LATER: &str =
    "insert into jobs.ready (kind, max_attempts, run_at, args) values ('hostile', 2, now() + interval '1 day', ";
const LARGE: &str = "json_build_object('text', repeat('x', 100000), 'number', 1, 'nested', null)";
const HUGE: &str = "json_build_object('text', repeat('x', 3000000), 'number', 1, 'nested', null)";
const NOW: &str =
    "update jobs.ready set run_at = clock_timestamp() where run_at > now() + interval '1 hour' and kind = 'hostile'";

/// Inserts them directly into the tables, as a program does that does not use the product.
pub(super) async fn write(conn: &Client) -> Result<Vec<HostilePayload>> {
    let mut payloads = Vec::new();
    for (what, text, expected) in texts() {
        let inserted = insert(conn, &format!("{INSERT}$json${text}$json$)")).await;
        payloads.push(HostilePayload::new(format!("{what}, inserted"), expected, inserted));
        let called = format!("select jobs.enqueue('hostile', $json${text}$json$, max_attempts => 2)");
        payloads.push(HostilePayload::new(format!("{what}, by the function"), expected, insert(conn, &called).await));
    }
    let others = [
        ("megabytes, inserted", format!("{INSERT}{HUGE})"), Expected::Refused),
        ("no arguments, inserted", format!("{INSERT}null)"), Expected::Refused),
        (
            "megabytes, by an update",
            format!(
                "{LATER}'{{}}'); update jobs.ready set args = {HUGE} where kind = 'hostile' and run_at > now() + interval '1 hour'; {NOW}"
            ),
            Expected::Run,
        ),
        (
            "no arguments, by an update",
            format!(
                "{LATER}'{{}}'); update jobs.ready set args = null where kind = 'hostile' and run_at > now() + interval '1 hour'; {NOW}"
            ),
            Expected::Unread,
        ),
        ("arguments set aside", format!("{INSERT}{LARGE})"), Expected::Run),
        (
            "megabytes set aside",
            format!(
                "{INSERT}{LARGE}); update jobs.payload set args = {HUGE} where job_id = (select max(id) from jobs.ready where kind = 'hostile')"
            ),
            Expected::Run,
        ),
        (
            "arguments deleted",
            format!(
                "{INSERT}{LARGE}); delete from jobs.payload where job_id = (select max(id) from jobs.ready where kind = 'hostile')"
            ),
            Expected::Unread,
        ),
    ];
    for (what, sql, expected) in others {
        payloads.push(HostilePayload::new(what, expected, insert(conn, &sql).await));
    }
    Ok(payloads)
}

/// Runs these statements in one transaction. Returns the id of the job that they created, or the server's error.
async fn insert(conn: &Client, sql: &str) -> Result<i64, String> {
    let done = async {
        conn.batch_execute("begin").await?;
        conn.batch_execute(sql).await?;
        let id = conn.query_one("select max(id) from jobs.ready where kind = 'hostile'", &[]).await?.get(0);
        conn.batch_execute("commit").await?;
        Ok::<i64, Error>(id)
    };
    match done.await {
        Ok(id) => Ok(id),
        Err(error) => {
            let refusal = error.as_db_error().map_or_else(|| error.to_string(), |error| error.message().to_owned());
            conn.batch_execute("rollback").await.map_err(|error| error.to_string())?;
            Err(refusal)
        }
    }
}
