//! A job of each form of handler.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use diesel::{Connection as _, PgConnection, SqliteConnection};
use diesel_async::{AsyncConnection as _, AsyncPgConnection};
use diesel_jobs::handler::{CompleteIn as _, Output};
use diesel_jobs::worker::Registry;
use diesel_jobs::{JobBuilder, JobContext, JobError, Outcome, State, job};
use serde::{Deserialize, Serialize};
use support::{Db, Probe, registry};

/// The value of the secret argument.
pub(super) const SECRET: &str = "hunter2";

/// What a handler does.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum Then {
    Complete,
    Output,
    Snooze,
    Cancel,
    Fail,
    Panic,
    /// Does not end by itself.
    Hang,
    /// Has a conflict with another transaction in its first run.
    Conflict,
    CompleteIn,
    FailWithSecret,
    CancelWithSecret,
}

/// The names of the layers.
#[derive(Clone, Debug)]
pub(super) struct Names(pub(super) String);

/// The URL of the database.
#[derive(Clone)]
pub(super) struct Url(pub(super) String);

/// Whether the conflict has occurred.
#[derive(Clone, Default)]
pub(super) struct Once(Arc<AtomicBool>);

/// No worker has it.
#[derive(Clone)]
pub(super) struct Nowhere;

fn end(then: Then, ctx: &JobContext, probe: &Probe, names: &Names, token: &str) -> Result<Outcome, JobError> {
    probe.say(ctx, format!("runs with {}", names.0));
    match then {
        Then::Complete | Then::Conflict | Then::CompleteIn | Then::Hang => Ok(Outcome::Complete),
        Then::Output => Ok(Outcome::CompleteWith(Output::new(&7))),
        Then::Snooze => Ok(Outcome::Snooze(Duration::from_secs(3600))),
        Then::Cancel => Ok(Outcome::Cancel("gone".to_owned())),
        Then::Fail => Err(JobError::msg("changed my mind")),
        Then::Panic => panic!("dropped the ledger"),
        Then::FailWithSecret => Err(JobError::msg(format!("the token {token} is wrong"))),
        Then::CancelWithSecret => Ok(Outcome::Cancel(format!("the token {token} is wrong"))),
    }
}

/// Completes the job in a transaction of this handler.
async fn complete_in(ctx: &JobContext, url: &Url) -> Result<(), JobError> {
    match url.0.strip_prefix("sqlite://") {
        Some(path) => complete_in_sqlite(ctx, path),
        None => {
            let mut conn = AsyncPgConnection::establish(&url.0).await.map_err(JobError::new)?;
            conn.transaction(async |conn| ctx.complete_in(conn).await).await.map_err(JobError::new)
        }
    }
}

fn complete_in_sqlite(ctx: &JobContext, path: &str) -> Result<(), JobError> {
    use diesel::connection::SimpleConnection as _;
    let mut conn = SqliteConnection::establish(path).map_err(JobError::new)?;
    conn.batch_execute("pragma busy_timeout = 10000").map_err(JobError::new)?;
    conn.transaction(|conn| ctx.complete_in(conn)).map_err(JobError::new)
}

macro_rules! async_job {
    ($name:ident $(, $timeout:literal)?) => {
        #[job(max_attempts = 1 $(, timeout = $timeout)?)]
        pub(super) async fn $name(
            then: Then,
            #[arg(secret)] token: String,
            ctx: &JobContext,
            State(probe): State<Probe>,
            State(names): State<Names>,
            State(url): State<Url>,
        ) -> Result<Outcome, JobError> {
            if then == Then::CompleteIn {
                complete_in(ctx, &url).await?;
            }
            let ended = end(then, ctx, &probe, &names, &token);
            if then == Then::Hang {
                std::future::pending::<()>().await;
            }
            ended
        }
    };
}

async_job!(on_runtime);
async_job!(on_a_task, "1h");

#[job(max_attempts = 1)]
pub(super) fn on_a_thread(
    then: Then,
    #[arg(secret)] token: String,
    ctx: &JobContext,
    State(probe): State<Probe>,
    State(names): State<Names>,
    State(url): State<Url>,
) -> Result<Outcome, JobError> {
    if then == Then::CompleteIn {
        tokio::runtime::Handle::current().block_on(complete_in(ctx, &url))?;
    }
    end(then, ctx, &probe, &names, &token)
}

#[job(max_attempts = 1, timeout = "1h")]
pub(super) async fn in_async_transaction(
    conn: &mut AsyncPgConnection,
    then: Then,
    #[arg(secret)] token: String,
    ctx: &JobContext,
    State(probe): State<Probe>,
    State(names): State<Names>,
    State(once): State<Once>,
) -> Result<Outcome, JobError> {
    use diesel_async::SimpleAsyncConnection as _;
    let ended = end(then, ctx, &probe, &names, &token);
    match then {
        Then::Hang => std::future::pending().await,
        Then::Conflict if !once.0.swap(true, Ordering::Relaxed) => {
            let raise = "do $$ begin raise exception 'in the way' using errcode = '40001'; end $$";
            conn.batch_execute(raise).await.map_err(JobError::new)?;
        }
        _ => {}
    }
    ended
}

macro_rules! transactional_job {
    ($name:ident, $connection:ty) => {
        #[job(max_attempts = 1)]
        pub(super) fn $name(
            _conn: &mut $connection,
            then: Then,
            #[arg(secret)] token: String,
            ctx: &JobContext,
            State(probe): State<Probe>,
            State(names): State<Names>,
        ) -> Result<Outcome, JobError> {
            end(then, ctx, &probe, &names, &token)
        }
    };
}

transactional_job!(in_transaction, PgConnection);
transactional_job!(in_sqlite, SqliteConnection);

#[job]
pub(super) fn notes(ctx: &JobContext, State(names): State<Names>, State(probe): State<Probe>) {
    probe.say(ctx, names.0);
}

#[job]
pub(super) fn hidden(State(nowhere): State<Nowhere>) {
    let Nowhere = nowhere;
}

/// A form of handler.
pub(super) struct Form {
    pub(super) name: &'static str,
    pub(super) job: fn(Then) -> JobBuilder,
    pub(super) is_transactional: bool,
    pub(super) has_timeout: bool,
}

/// The forms that this database can run.
pub(super) fn forms(db: &Db) -> Vec<Form> {
    macro_rules! form {
        ($name:literal, $job:ident, $is_transactional:literal, $has_timeout:literal) => {
            Form {
                name: $name,
                job: |then| $job { then, token: SECRET.to_owned() }.into(),
                is_transactional: $is_transactional,
                has_timeout: $has_timeout,
            }
        };
    }
    let mut forms = vec![
        form!("on_runtime", OnRuntime, false, false),
        form!("on_a_task", OnATask, false, true),
        form!("on_a_thread", OnAThread, false, false),
    ];
    if db.is_postgres() {
        forms.push(form!("in_async_transaction", InAsyncTransaction, true, true));
        forms.push(form!("in_transaction", InTransaction, true, false));
    } else {
        forms.push(form!("in_sqlite", InSqlite, true, false));
    }
    forms
}

/// Their jobs.
pub(super) fn jobs(db: &Db) -> Registry {
    let registry = registry![OnRuntime, OnATask, OnAThread];
    match db.is_postgres() {
        true => registry.with::<InAsyncTransaction>().with::<InTransaction>(),
        false => registry.with::<InSqlite>(),
    }
}
