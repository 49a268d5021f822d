//! Secrets that must not appear anywhere: arguments, states, the database's password. The tests search for them in
//! everything that a worker writes at `RUST_LOG=trace`, in the failures that it stores, in errors, and in `Debug`
//! output.

mod urls;
mod views;

use diesel_jobs::{JobState, NewJob};
use support::{Db, LIMIT, Process};

const ARGUMENT: &str = "canary-argument";
/// It contains nothing that needs encoding in a URL. So it is found in a URL of any form.
const PASSWORD: &str = "canarypassword";
const STATE: &str = "canary-state";

/// Returns the secret that a text contains: as it is, or as a list of its bytes, which is how drivers print what they
/// send.
fn tells(text: &str) -> Option<&'static str> {
    [ARGUMENT, PASSWORD, STATE].into_iter().find(|secret| {
        let bytes = secret.as_bytes();
        let decimal = format!("{bytes:?}");
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        [secret, decimal.trim_matches(['[', ']']), &hex].iter().any(|form| text.contains(form))
    })
}

fn assert_silent(what: &str, text: &str) {
    if let Some(secret) = tells(text) {
        let lines: Vec<&str> = text.lines().filter(|line| tells(line).is_some()).take(5).collect();
        panic!("{what} tells {secret:?}:\n{}", lines.join("\n"));
    }
}

/// Returns the URL with a password. The server does not ask for it.
fn with_password(db: &Db) -> String {
    match db.url().split_once("tester@") {
        Some((before, after)) if db.is_postgres() => format!("{before}tester:{PASSWORD}@{after}"),
        _ => db.url().to_owned(),
    }
}

/// One job for each way in which a job can end.
fn jobs() -> Vec<NewJob> {
    let long = ARGUMENT.repeat(300);
    [
        ("keep", format!(r#"{{"secret":"{ARGUMENT}"}}"#)),
        ("keep", format!(r#"{{"secret":"{long}"}}"#)),
        ("fail", format!(r#"{{"secret":"{ARGUMENT}"}}"#)),
        ("panic", format!(r#"{{"secret":"{ARGUMENT}"}}"#)),
        ("panic_on_a_thread", format!(r#"{{"secret":"{ARGUMENT}"}}"#)),
        ("hang", format!(r#"{{"secret":"{ARGUMENT}"}}"#)),
        ("pass_on", format!(r#"{{"secret":"{ARGUMENT}"}}"#)),
        // None of these can be decoded.
        ("fail", format!(r#""{ARGUMENT}""#)),
        ("fail", format!(r#"{{"secret":["{ARGUMENT}"]}}"#)),
        ("fail", format!(r#"{{"secret":{{"{ARGUMENT}":"{ARGUMENT}"}}}}"#)),
        ("fail", format!(r#"{{"{ARGUMENT}":"{ARGUMENT}"}}"#)),
        ("fail", format!(r#"{{"secret":"{ARGUMENT}","secret":"{ARGUMENT}"}}"#)),
        ("choose", format!(r#"{{"choice":"{ARGUMENT}, expected {ARGUMENT}"}}"#)),
        ("choose", format!(r#"{{"choice":{{"{ARGUMENT}":1}}}}"#)),
        ("be_choosy", format!(r#"{{"choosy":"{ARGUMENT}, expected {ARGUMENT}"}}"#)),
    ]
    .map(|(kind, args)| {
        let mut job = NewJob::raw(kind, args);
        job.max_attempts = 1;
        job
    })
    .into()
}

async fn a_worker_tells_no_secret_whatever_becomes_of_its_jobs(db: Db) {
    for format in ["pretty", "json"] {
        let mut conn = db.conn().await;
        let ids = conn.enqueue_all(jobs()).await;
        let worker = Process::worker_with(
            env!("CARGO_BIN_EXE_secrets-worker"),
            &with_password(&db),
            ["run", "--poll-interval", "50ms", "--log", format],
            // The second variable also enables the targets that write most, by name.
            &[("SECRET", STATE), ("RUST_LOG", "trace,tokio_postgres::query=trace,[job]=trace")],
        );
        let open = "select count(*) as number from jobs.job where finished_at is null";
        db.await_number(0, open).await;
        worker.signal("TERM");
        let ended = worker.ended(LIMIT);
        assert_eq!(ended.code, 0, "{}", ended.stderr);
        // It wrote all that it should.
        for words in ["job.transition", "worker stopped", "it cannot be done", "this is too much", "do not fit"] {
            assert!(ended.stderr.contains(words), "{words:?} is missing: {}", ended.stderr);
        }
        assert_silent(format, &ended.stderr);

        for (id, kind) in ids.into_iter().zip(jobs().into_iter().map(|job| job.kind)) {
            let (job, failures) = db.show(id).await;
            let completed = ["keep", "pass_on"].contains(&&*kind);
            assert_eq!(job.state == JobState::Completed, completed, "{kind}: {failures:?}");
            assert!(tells(&job.args).is_some() && failures.is_empty() == completed, "{kind}");
            assert_silent(&kind, &format!("{failures:?}"));
        }
        conn.execute("delete from jobs.job_error").await;
    }
}

support::on_each_database! {
    a_worker_tells_no_secret_whatever_becomes_of_its_jobs,
}
