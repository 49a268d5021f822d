//! A worker with one transactional batch handler, on the connection of its database. The first call says so after its
//! writes, and then waits, so that a test can kill the process in the middle of the transaction.

use std::time::Duration;

use diesel::connection::SimpleConnection;
use diesel::{PgConnection, SqliteConnection};
use diesel_jobs::handler::{BatchContext, BatchHandled, HandleBlockingBatchIn};
use diesel_jobs::prelude::*;
use diesel_jobs::worker::Registry;
use diesel_jobs::{Backend, Database, Worker};

use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize, Job)]
#[job(batch(max = 5, wait = "2s"), kind = "written", blocking = true, connection = PgConnection)]
struct OnPostgres {}

#[derive(Serialize, Deserialize, Job)]
#[job(batch(max = 5, wait = "2s"), kind = "written", blocking = true, connection = SqliteConnection)]
struct OnSqlite {}

impl HandleBlockingBatchIn<PgConnection> for OnPostgres {
    fn handle(_: Vec<Self>, conn: &mut PgConnection, ctx: BatchContext) -> BatchHandled {
        write(conn, &ctx)
    }
}

impl HandleBlockingBatchIn<SqliteConnection> for OnSqlite {
    fn handle(_: Vec<Self>, conn: &mut SqliteConnection, ctx: BatchContext) -> BatchHandled {
        write(conn, &ctx)
    }
}

#[expect(clippy::print_stderr, reason = "the test waits for this line")]
fn write<C: SimpleConnection>(conn: &mut C, ctx: &BatchContext) -> BatchHandled {
    for job in ctx.jobs() {
        let effect = format!("insert into effect (name, job) values ('written', {})", job.id());
        conn.batch_execute(&effect).map_err(JobError::new)?;
    }
    if ctx.jobs().iter().all(|job| job.attempt() == 1) {
        eprintln!("{} jobs have written", ctx.jobs().len());
        std::thread::sleep(Duration::from_secs(600));
    }
    ctx.complete_all()
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::var("DATABASE_URL")?;
    let registry = match Backend::of(&url)? {
        Backend::Postgres => Registry::new().with::<OnPostgres>(),
        _ => Registry::new().with::<OnSqlite>(),
    };
    let storage = Database::open(&url, 2).await?.storage;
    let worker = Worker::builder(storage).registry(registry).lease(Duration::from_secs(10)).slots(1).build()?;
    Ok(worker.run_until(std::future::pending()).await?)
}
