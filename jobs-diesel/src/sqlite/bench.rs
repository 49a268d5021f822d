//! `worker bench` on SQLite. It uses a separate directory beside the user's file, with a separate database file in it.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use async_trait::async_trait;
use diesel::connection::SimpleConnection as _;
use diesel::{Connection as _, SqliteConnection};
use diesel_jobs_core::storage::{Storage, StorageResult};
use diesel_jobs_core::{NewJob, StorageError};
use tokio::task::spawn_blocking;

use crate::bench::load_test_database::{LoadTestDatabase, Others, PlaceError, Producer, SCHEMA, Server, Waits};
use crate::enqueue_connection::{EnqueueConnection, SqliteSync, TransactionConnection};
use crate::error::storage_error;
use crate::sqlite::connect::connect;
use crate::sqlite::queries::bench as queries;
use crate::sqlite::{open, url};
use crate::stopwatch::Stopwatch;

/// A file with this name marks a directory that `worker bench` has made. A run locks the file while it uses the
/// directory.
const MARK: &str = "made-by-worker-bench";

/// How long the processes of a run that was killed may take to end.
const REMOVE_TIMEOUT: Duration = Duration::from_secs(5);

pub(crate) struct SqliteLoadTest {
    /// The user's file, which is never opened.
    file: String,
    directory: PathBuf,
    /// The locked mark, while this run uses the directory.
    ours: Mutex<Option<File>>,
}

/// Returns the storage of a worker that runs the load, in the directory.
pub(crate) async fn storage(url: &str) -> StorageResult<Arc<dyn Storage>> {
    let database = SqliteLoadTest::new(url)?;
    Ok(open(&format!("sqlite://{}", database.database()), Stopwatch::Runs).await?.storage)
}

impl SqliteLoadTest {
    pub(crate) fn new(url: &str) -> StorageResult<Self> {
        let file = url::file(url)?;
        Ok(Self { directory: PathBuf::from(format!("{file}.{SCHEMA}")), file, ours: Mutex::default() })
    }

    fn database(&self) -> String {
        self.directory.join("jobs.db").to_string_lossy().into_owned()
    }

    fn failed(&self, error: &io::Error) -> PlaceError {
        PlaceError::Refused(format!(
            "the load test needs a directory of its own, {}: {error}; this process must be able to create it",
            self.directory.display()
        ))
    }

    fn refused(&self, why: &str) -> PlaceError {
        PlaceError::Refused(format!("{} {why}", self.directory.display()))
    }

    /// Takes the directory and returns its locked mark. Creates the directory, or takes an empty one, or one with our
    /// mark that no other run has locked. Fails for any other directory.
    fn take(&self) -> Result<File, PlaceError> {
        let mark = self.directory.join(MARK);
        match fs::create_dir(&self.directory) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                let empty = fs::read_dir(&self.directory).map_err(|e| self.failed(&e))?.next().is_none();
                if !empty && !mark.is_file() {
                    return Err(self
                        .refused("was not made by this command, so it is left alone; move it, or test another file"));
                }
            }
            Err(error) => return Err(self.failed(&error)),
        }
        let lock = File::create(mark).map_err(|error| self.failed(&error))?;
        match lock.try_lock() {
            Ok(()) => Ok(lock),
            Err(TryLockError::WouldBlock) => Err(self.refused("is used by another load test; wait for its end")),
            Err(TryLockError::Error(error)) => Err(self.failed(&error)),
        }
    }

    /// Removes the directory, or everything in it except the mark. The processes of a killed run may still write to it,
    /// so this retries for up to [`REMOVE_TIMEOUT`].
    fn remove(&self, keep_mark: bool) -> io::Result<()> {
        let begun = Instant::now();
        loop {
            match self.try_remove(keep_mark) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
                Err(_) if begun.elapsed() < REMOVE_TIMEOUT => thread::sleep(Duration::from_millis(50)),
                done => return done,
            }
        }
    }

    fn try_remove(&self, keep_mark: bool) -> io::Result<()> {
        if !keep_mark {
            return fs::remove_dir_all(&self.directory);
        }
        for entry in fs::read_dir(&self.directory)? {
            let entry = entry?;
            if entry.file_name() != MARK {
                fs::remove_file(entry.path())?;
            }
        }
        Ok(())
    }

    /// When the user's file or its write-ahead log was last written. `None` if neither exists.
    fn written(&self) -> Option<SystemTime> {
        let modified = |path: &str| fs::metadata(path).and_then(|meta| meta.modified()).ok();
        modified(&self.file).max(modified(&format!("{}-wal", self.file)))
    }

    fn held(&self) -> std::sync::MutexGuard<'_, Option<File>> {
        self.ours.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut SqliteConnection) -> StorageResult<T> + Send + 'static,
    ) -> StorageResult<T> {
        let file = self.database();
        blocking(move || work(&mut connect(&file)?)).await
    }
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> StorageResult<T> + Send + 'static) -> StorageResult<T> {
    spawn_blocking(work).await.unwrap_or_else(|error| Err(StorageError::Unavailable(Box::new(error))))
}

#[async_trait]
impl LoadTestDatabase for SqliteLoadTest {
    fn place(&self) -> String {
        format!("the directory {}", self.directory.display())
    }

    async fn server(&self) -> StorageResult<Server> {
        let version = blocking(|| {
            let mut conn =
                SqliteConnection::establish(":memory:").map_err(|e| StorageError::Unavailable(Box::new(e)))?;
            queries::version(&mut conn).map_err(storage_error)
        })
        .await?;
        // All our connections to SQLite have the same settings, so there are none to report.
        Ok(Server {
            name: format!("SQLite {version}, a file on this machine"),
            settings: Vec::new(),
            free_connections: None,
            process: None,
            one_writer: true,
        })
    }

    async fn others(&self, span: Duration) -> StorageResult<Others> {
        let before = self.written();
        tokio::time::sleep(span).await;
        // The time of the last write shows whether other processes write to the file, not how much.
        let active = if self.written() == before { 0.0 } else { 1.0 };
        Ok(Others { active, ..Others::default() })
    }

    async fn prepare(&self) -> Result<(), PlaceError> {
        let mark = self.take()?;
        *self.held() = Some(mark);
        self.empty().await?;
        Ok(())
    }

    async fn waits(&self, span: Duration) -> StorageResult<Waits> {
        self.run(move |conn| {
            let (mut answers, mut commits) = (Vec::new(), Vec::new());
            let begun = Instant::now();
            while begun.elapsed() < span {
                let asked = Instant::now();
                conn.batch_execute(queries::NOTHING).map_err(storage_error)?;
                let answered = Instant::now();
                conn.batch_execute(queries::COMMIT).map_err(storage_error)?;
                answers.push(answered - asked);
                commits.push(answered.elapsed());
            }
            Ok(Waits::medians(answers, commits))
        })
        .await
    }

    async fn empty(&self) -> StorageResult<()> {
        // SQLite can only delete rows one by one, so a new file costs less.
        self.remove(true).map_err(|error| StorageError::Unavailable(Box::new(error)))?;
        self.run(|conn| {
            TransactionConnection::<SqliteSync>::migrate(conn)?;
            conn.batch_execute(queries::PREPARE).map_err(storage_error)
        })
        .await
    }

    async fn producer(&self) -> StorageResult<Box<dyn Producer>> {
        let file = self.database();
        Ok(Box::new(SqliteProducer { conn: Some(blocking(move || connect(&file)).await?) }))
    }

    async fn connections(&self) -> StorageResult<Option<usize>> {
        Ok(None)
    }

    async fn clear(&self) -> StorageResult<()> {
        let Some(mark) = self.held().take() else { return Ok(()) };
        let removed = self.remove(false);
        drop(mark);
        removed.map_err(|error| StorageError::Unavailable(Box::new(error)))
    }
}

/// Enqueues as an application with a sync connection does, on the blocking pool.
struct SqliteProducer {
    conn: Option<SqliteConnection>,
}

impl SqliteProducer {
    async fn run(
        &mut self,
        work: impl FnOnce(&mut SqliteConnection) -> StorageResult<()> + Send + 'static,
    ) -> StorageResult<()> {
        let Some(mut conn) = self.conn.take() else {
            return Err(StorageError::Unavailable(Box::new(io::Error::from(io::ErrorKind::NotConnected))));
        };
        let (conn, done) = blocking(move || {
            let done = work(&mut conn);
            Ok((conn, done))
        })
        .await?;
        self.conn = Some(conn);
        done
    }
}

#[async_trait]
impl Producer for SqliteProducer {
    async fn enqueue(&mut self, job: NewJob) -> StorageResult<()> {
        let insert = |conn: &mut SqliteConnection| EnqueueConnection::<SqliteSync>::insert_one(conn, Ok(job)).map(drop);
        self.run(|conn| insert(conn).map_err(|error| storage_error(error.into()))).await
    }

    async fn enqueue_all(&mut self, jobs: Vec<NewJob>) -> StorageResult<()> {
        let insert =
            |conn: &mut SqliteConnection| EnqueueConnection::<SqliteSync>::insert_all(conn, Ok(jobs)).map(drop);
        self.run(|conn| insert(conn).map_err(|error| storage_error(error.into()))).await
    }
}
