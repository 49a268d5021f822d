//! `#[derive(Job)]`: the long form is registered and run like the short one.

use std::time::Duration;

use diesel::SqliteConnection;
use diesel_async::AsyncPgConnection;
use diesel_jobs::handler::{Handle, HandleBlocking, HandleBlockingIn, HandleIn, Registered};
use diesel_jobs::{Job, JobContext, JobError, Outcome};
use diesel_jobs_core::{Handler, States};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::support::{run, run_with};

#[derive(Serialize, Deserialize, Job)]
#[job(queue = "mail", max_attempts = 3, timeout = "30s")]
#[job(kind = "send_welcome")]
struct SendMail {
    #[serde(rename = "id")]
    user_id: i64,
}

impl Handle for SendMail {
    async fn handle(self, ctx: JobContext) -> Result<Outcome, JobError> {
        tokio::task::yield_now().await;
        Ok(Outcome::Cancel(format!("{} {}", self.user_id, ctx.kind())))
    }
}

#[tokio::test]
async fn a_struct_brings_its_own_serde_and_handler() {
    let options = SendMail::OPTIONS;
    assert_eq!((SendMail::KIND, options.queue, options.max_attempts), ("send_welcome", "mail", 3));
    assert_eq!(options.timeout, Some(Duration::from_secs(30)));
    let answer = run::<SendMail>(&json!({"id": 5}), States::default()).await.unwrap();
    assert_eq!(answer, Outcome::Cancel("5 send_welcome".into()));
    let error = run::<SendMail>(&json!({"user_id": 5}), States::default()).await.unwrap_err();
    assert!(error.to_string().contains("missing field `id`"), "{error}");
}

#[derive(Serialize, Deserialize, Job)]
#[serde(tag = "channel")]
enum HTTPNotify2 {
    Mail { to: String },
    Silent,
}

impl Handle for HTTPNotify2 {
    async fn handle(self, _: JobContext) -> Result<Outcome, JobError> {
        match self {
            Self::Mail { to } => Ok(Outcome::Cancel(to)),
            Self::Silent => Ok(Outcome::Complete),
        }
    }
}

#[tokio::test]
async fn an_enum_is_a_job_too_and_its_kind_is_its_name_in_snake_case() {
    assert_eq!(HTTPNotify2::KIND, "http_notify2");
    assert_eq!(HTTPNotify2::REGISTRATION.type_name, "macros::declaration::HTTPNotify2");
    let mail = run::<HTTPNotify2>(&json!({"channel": "Mail", "to": "ada"}), States::default()).await.unwrap();
    assert_eq!(mail, Outcome::Cancel("ada".into()));
    let silent = run::<HTTPNotify2>(&json!({"channel": "Silent"}), States::default()).await.unwrap();
    assert_eq!(silent, Outcome::Complete);
}

#[derive(Serialize, Deserialize, Job)]
#[job(cron = "0 4 * * *")]
struct Cleanup;

impl Handle for Cleanup {
    async fn handle(self, _: JobContext) -> Result<Outcome, JobError> {
        Ok(Outcome::Complete)
    }
}

#[tokio::test]
async fn a_unit_struct_reads_from_what_schedules_and_plain_sql_write() {
    assert_eq!(Cleanup::REGISTRATION.schedule.unwrap().expression, "0 4 * * *");
    for args in [json!({}), json!(null)] {
        assert_eq!(run::<Cleanup>(&args, States::default()).await.unwrap(), Outcome::Complete);
    }
    assert!(run::<Cleanup>(&json!("text"), States::default()).await.is_err());
}

#[derive(Serialize, Deserialize, Job)]
#[job(blocking = true)]
struct Render {
    page: i64,
}

impl HandleBlocking for Render {
    fn handle(self, ctx: JobContext) -> Result<Outcome, JobError> {
        Ok(Outcome::Cancel(format!("{} {}", self.page, ctx.attempt())))
    }
}

#[derive(Serialize, Deserialize, Job)]
#[job(connection = AsyncPgConnection)]
struct Charge {
    order: i64,
}

impl HandleIn<AsyncPgConnection> for Charge {
    async fn handle(self, _conn: &mut AsyncPgConnection, ctx: JobContext) -> Result<Outcome, JobError> {
        tokio::task::yield_now().await;
        Ok(Outcome::Cancel(format!("{} {}", self.order, ctx.kind())))
    }
}

#[derive(Serialize, Deserialize, Job)]
#[job(blocking = true, connection = SqliteConnection)]
struct Close;

impl HandleBlockingIn<SqliteConnection> for Close {
    fn handle(self, conn: &mut SqliteConnection, _: JobContext) -> Result<Outcome, JobError> {
        use diesel::connection::SimpleConnection as _;
        conn.batch_execute("create table closed (day text)").map_err(JobError::new)?;
        Ok(Outcome::Complete)
    }
}

#[tokio::test]
async fn a_type_may_block_and_may_ask_for_the_connection_of_its_transaction() {
    use diesel::Connection as _;
    let rendered = run::<Render>(&json!({"page": 7}), States::default()).await.unwrap();
    assert_eq!(rendered, Outcome::Cancel("7 1".into()));
    assert!(matches!(Render::REGISTRATION.handler, Handler::Blocking(_)));

    assert!(matches!(Charge::REGISTRATION.handler, Handler::AsyncTransactional(_)));
    let connection = Charge::REGISTRATION.connection.map(|key| key().id);
    assert_eq!(connection, Some(std::any::TypeId::of::<AsyncPgConnection>()));

    let mut conn = SqliteConnection::establish(":memory:").unwrap();
    assert_eq!(run_with::<Close>(&mut conn, &json!({})).await.unwrap(), Outcome::Complete);
    let again = run_with::<Close>(&mut conn, &json!({})).await.unwrap_err();
    assert!(again.to_string().contains("already exists"), "it was made on this connection: {again}");
    let another = run_with::<Close>(&mut 7, &json!({})).await.unwrap_err();
    assert!(another.to_string().contains("another connection"), "{another}");
}
