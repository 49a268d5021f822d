//! Rows whose values run code when they are read: several rows of one handler, and a panic.

use diesel::backend::Backend;
use diesel::connection::SimpleConnection as _;
use diesel::deserialize::FromSql;
use diesel::sql_types::Text;
use diesel::{Connection as _, Identifiable, PgConnection, Queryable, Selectable, SqliteConnection};
use diesel_jobs::handler::FailureKind;
use diesel_jobs::rows::Ref;
use diesel_jobs::{JobContext, State, job};
use support::{Db, Probe, Running, registry};

use crate::rows::{Account, TABLES, account};

/// The name of an account, which is a URL. When it is read, another session changes the name of account 8 there.
struct Changing(String);

impl<DB: Backend> Queryable<Text, DB> for Changing
where
    String: FromSql<Text, DB>,
{
    type Row = String;

    fn build(url: String) -> diesel::deserialize::Result<Self> {
        const CHANGE: &str = "update account set name = 'changed' where id = 8";
        assert_ne!(url, "Ada", "no URL");
        match url.strip_prefix("sqlite://") {
            Some(file) => {
                SqliteConnection::establish(file)?.batch_execute(&format!("pragma busy_timeout = 10000; {CHANGE}"))?
            }
            None => PgConnection::establish(&url)?.batch_execute(CHANGE)?,
        }
        Ok(Self(url))
    }
}

impl From<Changing> for String {
    fn from(Changing(url): Changing) -> Self {
        url
    }
}

#[derive(Identifiable, Queryable, Selectable)]
#[diesel(table_name = account)]
struct Changes {
    id: i64,
    #[diesel(deserialize_as = Changing)]
    name: String,
}

#[job]
async fn compares(changes: Ref<Changes>, account: Ref<Account>, ctx: &JobContext, State(probe): State<Probe>) {
    assert!(changes.id == 7 && !changes.name.is_empty());
    probe.say(ctx, account.name.clone());
}

async fn several_rows_are_of_one_snapshot(db: Db) {
    let (probe, mut events) = Probe::new();
    db.execute(TABLES).await;
    // `execute` would replace the text `jobs.` in the name of the file.
    let url = db.url().replace('.', "!");
    db.execute(&format!("update account set name = replace('{url}', '!', '.') where id = 7")).await;
    db.enqueue(Compares::new(7, 8)).await;
    let worker = Running::start(db.worker(registry![Compares]).state(probe));
    events.expect("Grace").await;
    worker.stop().await;
    assert_eq!(db.number("select count(*) as number from account where name = 'changed'").await, 1);
}

#[job(max_attempts = 1)]
fn reads(_changes: Ref<Changes>) {}

async fn a_value_that_panics_fails_the_attempt(db: Db) {
    db.execute(TABLES).await;
    let id = db.enqueue(Reads::new(7)).await;
    db.work(registry![Reads]).await;
    let failure = db.failures(id).await.remove(0);
    assert!(failure.kind == FailureKind::Panic && failure.message.contains("no URL"), "{failure:?}");
}

support::on_each_database! {
    several_rows_are_of_one_snapshot,
    a_value_that_panics_fails_the_attempt,
}
