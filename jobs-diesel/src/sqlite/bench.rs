//! SQLite under `worker bench`: a directory of its own beside the file, with a file of its own in it.

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

use crate::bench::ground::{Ground, Others, PlaceError, Producer, SCHEMA, Server, Waits};
use crate::error::storage_error;
use crate::executor::{Executor, SqliteSync};
use crate::sqlite::connect::connect;
use crate::sqlite::queries::bench as queries;
use crate::sqlite::{open, url};

/// The file that says whose directory it is. Locked while a run uses it.
const MARK: &str = "made-by-worker-bench";

/// How long the processes of a run that was killed may take to end.
const PATIENCE: Duration = Duration::from_secs(5);

pub(crate) struct SqliteGround {
    /// The user's file, which is never opened.
    file: String,
    directory: PathBuf,
    /// The mark, locked, while the directory is this run's.
    ours: Mutex<Option<File>>,
}

/// A worker's storage in the directory.
pub(crate) async fn storage(url: &str) -> StorageResult<Arc<dyn Storage>> {
    let ground = SqliteGround::new(url)?;
    Ok(open(&format!("sqlite://{}", ground.database()), 1).await?.storage)
}

impl SqliteGround {
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

    /// Takes the directory over: a new one, an empty one, or one with our mark that nobody has locked.
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

    /// Removes everything, or everything but the mark. The processes of a killed run may still write for a moment.
    fn remove(&self, keep_mark: bool) -> io::Result<()> {
        let begun = Instant::now();
        loop {
            match self.try_remove(keep_mark) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
                Err(_) if begun.elapsed() < PATIENCE => thread::sleep(Duration::from_millis(50)),
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

    /// When the user's file was last written, by the file or its log.
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
impl Ground for SqliteGround {
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
        // All connections of the store have the same settings, so there are none to tell.
        Ok(Server {
            name: format!("SQLite {version}, the embedded store"),
            settings: Vec::new(),
            free_connections: None,
            process: None,
            one_writer: true,
        })
    }

    async fn others(&self, span: Duration) -> StorageResult<Others> {
        let before = self.written();
        tokio::time::sleep(span).await;
        // A file tells that it is written to, not how much.
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
        // A new file costs less than deleting row by row, which is all SQLite has.
        self.remove(true).map_err(|error| StorageError::Unavailable(Box::new(error)))?;
        self.run(|conn| {
            Executor::<SqliteSync>::migrate(conn)?;
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

/// As a sync application's connection, on the blocking pool.
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
        let insert = |conn: &mut SqliteConnection| Executor::<SqliteSync>::insert_one(conn, Ok(job)).map(drop);
        self.run(|conn| insert(conn).map_err(|error| storage_error(error.into()))).await
    }

    async fn enqueue_all(&mut self, jobs: Vec<NewJob>) -> StorageResult<()> {
        let insert = |conn: &mut SqliteConnection| Executor::<SqliteSync>::insert_all(conn, Ok(jobs)).map(drop);
        self.run(|conn| insert(conn).map_err(|error| storage_error(error.into()))).await
    }
}
