//! Every form of handler, decoded and called through its registration, as a worker does.

use std::io;
use std::time::Duration;

use diesel_jobs::__private::{AsyncJobConnection, BlockingJobConnection};
use diesel_jobs::handler::{Registered, ResultExt as _};
use diesel_jobs::{JobContext, JobError, Outcome, State, job};
use diesel_jobs_core::{Handler, States, TypeKey};
use serde_json::json;

use crate::support::{context, run, run_with};

/// A connection of either sort.
#[derive(Default)]
struct Ledger(Vec<String>);

impl AsyncJobConnection for Ledger {}
impl BlockingJobConnection for Ledger {}

#[derive(Clone)]
struct Mailer(&'static str);

type Shared<T> = State<T>;

#[job]
async fn asynchronous(to: String, State(mailer): State<Mailer>, ctx: &JobContext) -> Result<(), JobError> {
    tokio::task::yield_now().await;
    Err(JobError::msg(format!("{} {to} {}", mailer.0, ctx.id())))
}

#[job]
fn blocking(to: &str, mailer: State<Mailer>, ctx: JobContext) -> Result<Outcome, io::Error> {
    let State(Mailer(name)) = mailer;
    Ok(Outcome::Cancel(format!("{name} {to} {}", ctx.id())))
}

#[job]
async fn asynchronous_in_transaction(conn: &mut Ledger, entry: String) -> Result<(), io::Error> {
    tokio::task::yield_now().await;
    conn.0.push(entry);
    Ok(())
}

#[job]
fn blocking_in_transaction(entry: &str, Ledger(entries): &mut Ledger, _ctx: &JobContext) {
    entries.push(entry.to_owned());
}

fn states() -> States {
    let mut states = States::default();
    states.insert(Mailer("mailer"));
    states
}

#[tokio::test]
async fn an_async_fn_runs_as_a_future() {
    assert!(matches!(Asynchronous::REGISTRATION.handler, Handler::Async(_)));
    let error = run::<Asynchronous>(&json!({"to": "ada"}), states()).await.unwrap_err();
    assert_eq!(error.to_string(), "mailer ada 7");
}

#[tokio::test]
async fn a_plain_fn_runs_as_a_call() {
    assert!(matches!(Blocking::REGISTRATION.handler, Handler::Blocking(_)));
    let answer = run::<Blocking>(&json!({"to": "ada"}), states()).await.unwrap();
    assert_eq!(answer, Outcome::Cancel("mailer ada 7".into()));
}

#[tokio::test]
async fn a_mutable_reference_is_the_connection_of_the_transaction() {
    let mut ledger = Ledger::default();
    assert!(matches!(AsynchronousInTransaction::REGISTRATION.handler, Handler::AsyncTransactional(_)));
    run_with::<AsynchronousInTransaction>(&mut ledger, &json!({"entry": "one"})).await.unwrap();
    assert!(matches!(BlockingInTransaction::REGISTRATION.handler, Handler::BlockingTransactional(_)));
    run_with::<BlockingInTransaction>(&mut ledger, &json!({"entry": "two"})).await.unwrap();
    assert_eq!(ledger.0, ["one", "two"]);
}

#[tokio::test]
async fn another_connection_fails_the_job_and_nothing_else() {
    for error in [
        run_with::<AsynchronousInTransaction>(&mut 0u8, &json!({"entry": "x"})).await.unwrap_err(),
        run_with::<BlockingInTransaction>(&mut 0u8, &json!({"entry": "x"})).await.unwrap_err(),
    ] {
        let message = error.to_string();
        assert!(message.contains("in_transaction") && message.contains("Ledger"), "{message}");
    }
}

#[tokio::test]
async fn a_missing_state_fails_the_job_and_names_the_type() {
    let error = run::<Asynchronous>(&json!({"to": "ada"}), States::default()).await.unwrap_err();
    assert!(error.to_string().contains("Mailer"), "{error}");
}

#[tokio::test]
async fn arguments_that_do_not_fit_fail_the_job_before_it_runs() {
    let error = run::<Asynchronous>(&json!({"to": 3}), states()).await.unwrap_err();
    let message = error.to_string();
    assert!(message.contains("`asynchronous`") && message.contains("`to`: expected a string"), "{message}");
}

#[test]
fn a_registration_names_what_the_worker_must_have() {
    let names = |states: &[fn() -> TypeKey]| states.iter().map(|key| key()).collect::<Vec<_>>();
    assert_eq!(names(Asynchronous::REGISTRATION.states), [TypeKey::of::<Mailer>()]);
    assert_eq!(names(BlockingInTransaction::REGISTRATION.states), []);
    assert!(Asynchronous::REGISTRATION.connection.is_none());
    let connection = AsynchronousInTransaction::REGISTRATION.connection.unwrap();
    assert_eq!(connection(), TypeKey::of::<Ledger>());
}

#[tokio::test]
async fn the_function_stays_callable() {
    let mut ledger = Ledger::default();
    asynchronous_in_transaction(&mut ledger, "by hand".into()).await.unwrap();
    let ctx = context::<Blocking>(&json!({}), states());
    let outcome = blocking("ada", Shared::<Mailer> { 0: Mailer("m") }, ctx).unwrap();
    assert_eq!((ledger.0.len(), outcome), (1, Outcome::Cancel("m ada 7".into())));
}

#[job]
fn answers_nothing() {}

#[job]
fn answers_an_outcome() -> Outcome {
    Outcome::Snooze(Duration::from_secs(5))
}

#[job]
async fn answers_anyhow(fatal: bool) -> anyhow::Result<Outcome> {
    match fatal {
        true => Err(JobError::msg("no use").fatal().into()),
        false => Err(anyhow::anyhow!("later")),
    }
}

#[derive(Debug, thiserror::Error)]
#[error("of its own")]
struct OwnError;

#[job]
fn answers_an_error() -> Result<(), OwnError> {
    Err(OwnError)
}

#[job]
fn answers_a_box(fatal: bool) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    if fatal {
        // In the way in which `?` converts it.
        Err(JobError::msg("no use").fatal())?;
    }
    Err("later")?;
    Ok(())
}

#[job]
async fn answers_a_box_later() -> Result<Outcome, Box<dyn std::error::Error + Send + Sync + 'static>> {
    Err(OwnError)?;
    Ok(Outcome::Complete)
}

#[job]
fn makes_a_box_fatal() -> Result<(), JobError> {
    let failed: Result<(), Box<dyn std::error::Error + Send + Sync>> = Err(OwnError.into());
    failed.fatal()
}

#[tokio::test]
async fn an_error_in_a_box_is_an_error() {
    let none = States::default;
    let fatal = run::<AnswersABox>(&json!({"fatal": true}), none()).await.unwrap_err();
    assert!(fatal.is_fatal(), "{fatal}");
    let error = run::<AnswersABox>(&json!({"fatal": false}), none()).await.unwrap_err();
    assert_eq!((error.to_string().as_str(), error.is_fatal()), ("later", false));
    assert_eq!(run::<AnswersABoxLater>(&json!({}), none()).await.unwrap_err().to_string(), "of its own");
    let error = run::<MakesABoxFatal>(&json!({}), none()).await.unwrap_err();
    assert_eq!((error.to_string().as_str(), error.is_fatal()), ("of its own", true));
}

#[job]
fn returns_a_number() -> Result<u8, std::fmt::Error> {
    Ok(7)
}

#[job]
async fn returns_what_it_borrows(name: &str) -> Result<&str, JobError> {
    Ok(&name[1..])
}

#[derive(serde::Serialize)]
enum Only {
    One,
}

#[job]
fn returns_no_size() -> Result<Only, JobError> {
    Ok(Only::One)
}

#[job]
fn returns_none() -> Result<Option<u8>, JobError> {
    Ok(None)
}

#[job]
fn returns_an_output(complete: bool) -> Result<Outcome, JobError> {
    let outcome = Outcome::CompleteWith(diesel_jobs::handler::Output::new(&"by hand"));
    Ok(if complete { outcome } else { Outcome::Complete })
}

#[tokio::test]
async fn what_a_function_returns_is_the_output() {
    async fn output<J: Registered>(args: serde_json::Value) -> Option<String> {
        match run::<J>(&args, States::default()).await.unwrap() {
            Outcome::CompleteWith(output) => Some(output.json().unwrap().to_owned()),
            other => {
                assert_eq!(other, Outcome::Complete);
                None
            }
        }
    }
    assert_eq!(output::<ReturnsANumber>(json!({})).await.as_deref(), Some("7"));
    assert_eq!(output::<ReturnsWhatItBorrows>(json!({"name": "ab"})).await.as_deref(), Some("\"b\""));
    assert_eq!(output::<ReturnsNoSize>(json!({})).await, None);
    assert_eq!(output::<ReturnsNone>(json!({})).await, None);
    assert_eq!(output::<ReturnsAnOutput>(json!({"complete": true})).await.as_deref(), Some("\"by hand\""));
    assert_eq!(output::<ReturnsAnOutput>(json!({"complete": false})).await, None);
}

#[tokio::test]
async fn every_return_type_comes_down_to_an_outcome_or_an_error() {
    let none = States::default;
    assert_eq!(run::<AnswersNothing>(&json!({}), none()).await.unwrap(), Outcome::Complete);
    let snoozed = run::<AnswersAnOutcome>(&json!({}), none()).await.unwrap();
    assert_eq!(snoozed, Outcome::Snooze(Duration::from_secs(5)));
    assert!(run::<AnswersAnyhow>(&json!({"fatal": true}), none()).await.unwrap_err().is_fatal());
    assert!(!run::<AnswersAnyhow>(&json!({"fatal": false}), none()).await.unwrap_err().is_fatal());
    assert_eq!(run::<AnswersAnError>(&json!({}), none()).await.unwrap_err().to_string(), "of its own");
}

#[cfg(feature = "sqlite")]
mod sqlite {
    use diesel::prelude::*;
    use diesel_jobs::job;
    use serde_json::json;

    use crate::support::run_with;

    type Db = SqliteConnection;

    #[job]
    fn writes(conn: &mut Db, rows: i32) -> QueryResult<()> {
        diesel::sql_query("create table entry (n integer)").execute(conn)?;
        for n in 0..rows {
            diesel::sql_query(format!("insert into entry values ({n})")).execute(conn)?;
        }
        Ok(())
    }

    #[tokio::test]
    async fn diesels_own_connection_behind_an_alias() {
        let mut conn = SqliteConnection::establish(":memory:").unwrap();
        run_with::<Writes>(&mut conn, &json!({"rows": 3})).await.unwrap();
        assert_eq!(diesel::sql_query("delete from entry").execute(&mut conn).unwrap(), 3);
    }
}

#[cfg(feature = "postgres")]
mod postgres {
    use diesel::QueryResult;
    use diesel_async::{AsyncPgConnection, RunQueryDsl};
    use diesel_jobs::handler::Registered;
    use diesel_jobs::{JobContext, job};
    use diesel_jobs_core::{Handler, TypeKey};

    #[job]
    async fn writes_later(ctx: &JobContext, conn: &mut AsyncPgConnection, row: String) -> QueryResult<()> {
        let _ = (ctx.attempt(), row);
        diesel::sql_query("select 1").execute(conn).await.map(drop)
    }

    #[test]
    fn diesel_asyncs_connection_makes_an_async_transactional_job() {
        let registration = WritesLater::REGISTRATION;
        assert!(matches!(registration.handler, Handler::AsyncTransactional(_)));
        assert_eq!(registration.connection.unwrap()(), TypeKey::of::<AsyncPgConnection>());
    }
}
