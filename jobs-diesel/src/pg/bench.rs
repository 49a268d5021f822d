//! PostgreSQL under `worker bench`: it has its own schema, on connections that rename our schema.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use diesel_async::{AsyncConnection, AsyncPgConnection};
use diesel_jobs_core::storage::{Storage, StorageResult};
use diesel_jobs_core::{NewJob, StorageError};
use tokio::sync::{Mutex, MutexGuard};

use super::connect::Connector;
use super::queries::{bench as queries, session};
use super::{PgStorage, migrate, unavailable};
use crate::bench::load_test_database::{LoadTestDatabase, Others, PlaceError, Producer, SCHEMA, Server, Waits};
use crate::enqueue_connection::{EnqueueConnection, PgAsync};
use crate::error::{MigrateError, storage_error};
use crate::meaning::Meaning;
use crate::migrations::POSTGRES;

/// How often the activity of other sessions is read.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(100);

/// How long the session of a killed run may take to end.
const WAIT_FOR_LOCK: Duration = Duration::from_secs(5);

/// How often it is tried to drop the schema.
const DROPS: u32 = 5;

/// One connection manages the schema. Its session holds the lock that keeps a second run out.
pub(crate) struct PgLoadTest {
    connector: Connector,
    keeper: Mutex<Keeper>,
}

#[derive(Default)]
struct Keeper {
    conn: Option<AsyncPgConnection>,
    /// Whether the schema belongs to this run: complete, partly made or still to be made.
    ours: bool,
}

/// A worker's storage in the schema.
pub(crate) fn storage(url: &str) -> StorageResult<Arc<dyn Storage>> {
    Ok(Arc::new(PgStorage::on(Connector::from_url(url)?.renamed(), 1)?))
}

impl PgLoadTest {
    pub(crate) fn new(url: &str) -> StorageResult<Self> {
        Ok(Self { connector: Connector::from_url(url)?.renamed(), keeper: Mutex::default() })
    }

    async fn connect(&self) -> StorageResult<AsyncPgConnection> {
        Ok(self.connector.connect().await?)
    }

    async fn keeper(&self) -> StorageResult<MutexGuard<'_, Keeper>> {
        let mut keeper = self.keeper.lock().await;
        if keeper.conn.is_none() {
            keeper.conn = Some(self.connect().await?);
        }
        Ok(keeper)
    }
}

impl Keeper {
    fn conn(&mut self) -> StorageResult<&mut AsyncPgConnection> {
        self.conn.as_mut().ok_or_else(|| unavailable(std::io::Error::from(std::io::ErrorKind::NotConnected)))
    }
}

/// Waits for the lock for as long as the session of a killed run may need to end. Returns `false` if another run holds
/// it.
async fn lock(conn: &mut AsyncPgConnection) -> StorageResult<bool> {
    let begun = Instant::now();
    while !queries::lock(conn).await.map_err(storage_error)? {
        if begun.elapsed() > WAIT_FOR_LOCK {
            return Ok(false);
        }
        tokio::time::sleep(SAMPLE_INTERVAL).await;
    }
    Ok(true)
}

/// Fails if the role may not create a schema. The error contains the statement that grants the privilege.
async fn check_privilege(conn: &mut AsyncPgConnection) -> Result<(), PlaceError> {
    let privilege = queries::create_privilege(conn).await.map_err(storage_error)?;
    if privilege.granted {
        return Ok(());
    }
    Err(PlaceError::Refused(format!(
        "the load test needs its own schema, {SCHEMA}, and this role may not create it; grant the privilege for the time of \
         the test: `{}`",
        privilege.grant
    )))
}

/// A session of a killed run may still execute a statement, with which this one deadlocks. Then it is repeated.
async fn drop_schema(conn: &mut AsyncPgConnection) -> StorageResult<()> {
    for _ in 1..DROPS {
        match queries::drop_schema(conn).await {
            Err(error) if Meaning::of(&error) == Meaning::Conflict => {}
            answer => return answer.map_err(storage_error),
        }
    }
    queries::drop_schema(conn).await.map_err(storage_error)
}

/// Drops the schema that a killed run left. A schema of that name which `worker bench` did not make is not dropped.
async fn drop_stale(conn: &mut AsyncPgConnection) -> Result<(), PlaceError> {
    match queries::comment(conn).await.map_err(storage_error)?.as_deref() {
        None => Ok(()),
        Some(queries::SCHEMA_COMMENT) => Ok(drop_schema(conn).await?),
        Some(_) => Err(PlaceError::Refused(format!(
            "this database has a schema {SCHEMA} that was not made by this command, so it is left alone; rename it \
             (`alter schema {SCHEMA} rename to ..`), or test on another database"
        ))),
    }
}

async fn make(conn: &mut AsyncPgConnection) -> Result<(), MigrateError> {
    conn.transaction(async |conn| {
        migrate::up(conn, POSTGRES, true).await?;
        Ok(queries::add_comment(conn).await?)
    })
    .await
}

#[async_trait]
impl LoadTestDatabase for PgLoadTest {
    fn place(&self) -> String {
        format!("the schema {SCHEMA}")
    }

    async fn server(&self) -> StorageResult<Server> {
        let mut keeper = self.keeper().await?;
        let row = queries::server(keeper.conn()?).await.map_err(storage_error)?;
        Ok(Server {
            name: format!("PostgreSQL {}", row.version),
            settings: row.settings,
            free_connections: Some(usize::try_from(row.free_connections).unwrap_or_default()),
            process: u32::try_from(row.process).ok(),
            one_writer: false,
        })
    }

    async fn others(&self, span: Duration) -> StorageResult<Others> {
        let mut keeper = self.keeper().await?;
        let conn = keeper.conn()?;
        let begun = Instant::now();
        let first = queries::others(conn).await.map_err(storage_error)?;
        let mut others = Others { active: first.active, programs: first.programs, transactions: 0.0 };
        let (mut samples, mut last) = (1.0, first.transactions);
        while begun.elapsed() < span {
            tokio::time::sleep(SAMPLE_INTERVAL).await;
            let sample = queries::others(conn).await.map_err(storage_error)?;
            others.active += sample.active;
            others.programs.extend(sample.programs);
            (samples, last) = (samples + 1.0, sample.transactions);
        }
        others.programs.sort_unstable();
        others.programs.dedup();
        others.active /= samples;
        // Each read was a transaction, too.
        others.transactions = (last - first.transactions - samples).max(0.0) / begun.elapsed().as_secs_f64();
        Ok(others)
    }

    async fn prepare(&self) -> Result<(), PlaceError> {
        let mut keeper = self.keeper().await?;
        let mut other = self.connect().await?;
        if session::are_shared(keeper.conn()?, &mut other).await.map_err(storage_error)? {
            return Err(PlaceError::Refused(
                "the connection goes through a pooler in transaction mode, and the load test holds a lock in its session; \
                 name the server itself in DATABASE_URL"
                    .to_owned(),
            ));
        }
        drop(other);
        if !lock(keeper.conn()?).await? {
            return Err(PlaceError::Refused(format!(
                "another load test is using the schema {SCHEMA} of this database; wait for its end"
            )));
        }
        check_privilege(keeper.conn()?).await?;
        drop_stale(keeper.conn()?).await?;
        keeper.ours = true;
        make(keeper.conn()?).await.map_err(StorageError::from)?;
        Ok(())
    }

    async fn waits(&self, span: Duration) -> StorageResult<Waits> {
        let mut conn = self.connect().await?;
        let (mut answers, mut commits) = (Vec::new(), Vec::new());
        let begun = Instant::now();
        while begun.elapsed() < span {
            let asked = Instant::now();
            queries::empty_select(&mut conn).await.map_err(storage_error)?;
            let answered = Instant::now();
            queries::commit(&mut conn).await.map_err(storage_error)?;
            answers.push(answered - asked);
            commits.push(answered.elapsed());
        }
        Ok(Waits::medians(answers, commits))
    }

    async fn empty(&self) -> StorageResult<()> {
        queries::empty(self.keeper().await?.conn()?).await.map_err(storage_error)
    }

    async fn producer(&self) -> StorageResult<Box<dyn Producer>> {
        Ok(Box::new(PgProducer(self.connect().await?)))
    }

    async fn connections(&self) -> StorageResult<Option<usize>> {
        let open = queries::connections(self.keeper().await?.conn()?).await.map_err(storage_error)?;
        Ok(usize::try_from(open).ok())
    }

    async fn clear(&self) -> StorageResult<()> {
        let mut keeper = self.keeper.lock().await;
        // The failure may have left this connection in the middle of a statement. Closing the connection frees the
        // lock.
        drop(keeper.conn.take());
        if !std::mem::take(&mut keeper.ours) {
            return Ok(());
        }
        let mut conn = self.connect().await?;
        if !lock(&mut conn).await? {
            return Err(unavailable(std::io::Error::other("another session holds its lock")));
        }
        if queries::comment(&mut conn).await.map_err(storage_error)?.as_deref() == Some(queries::SCHEMA_COMMENT) {
            drop_schema(&mut conn).await?;
        }
        Ok(())
    }
}

struct PgProducer(AsyncPgConnection);

#[async_trait]
impl Producer for PgProducer {
    async fn enqueue(&mut self, job: NewJob) -> StorageResult<()> {
        let inserted = EnqueueConnection::<PgAsync>::insert_one(&mut self.0, Ok(job)).await;
        inserted.map(drop).map_err(|error| storage_error(error.into()))
    }

    async fn enqueue_all(&mut self, jobs: Vec<NewJob>) -> StorageResult<()> {
        let inserted = EnqueueConnection::<PgAsync>::insert_all(&mut self.0, Ok(jobs)).await;
        inserted.map(drop).map_err(|error| storage_error(error.into()))
    }
}
