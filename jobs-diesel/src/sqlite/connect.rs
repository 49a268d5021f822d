//! Opens a connection with the settings that all our connections share.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use diesel::connection::SimpleConnection;
use diesel::{Connection, QueryResult, SqliteConnection};
use diesel_jobs_core::StorageError;
use diesel_jobs_core::storage::StorageResult;

use crate::error::storage_error;

/// How long a transaction waits for another transaction before it fails.
pub(super) const BUSY_TIMEOUT: Duration = Duration::from_secs(15);

/// With this setting each commit waits for the disk.
pub(super) const DURABLE: &str = "pragma synchronous = full";
/// With this setting a commit does not wait for the disk. The next durable commit writes it to the disk.
pub(super) const LAZY: &str = "pragma synchronous = normal";

/// How many bytes the write-ahead log keeps on the disk. A long transaction, such as the enqueue of very many jobs,
/// makes it longer, and SQLite uses that space again but by default never gives it back. With this limit, the first
/// write after the log was copied into the file cuts it to this size. A smaller limit would cost writers time after
/// each larger transaction. An ordinary load fills only the 4 MiB after which SQLite copies the log.
pub(super) const LONGEST_LOG: u64 = 64 * 1024 * 1024;

/// Opens the file, creating it if it is missing.
pub(super) fn connect(file: &str) -> StorageResult<SqliteConnection> {
    let mut conn = SqliteConnection::establish(file).map_err(|error| explain(file, &error))?;
    conn.batch_execute(&format!("pragma busy_timeout = {}", BUSY_TIMEOUT.as_millis())).map_err(storage_error)?;
    use_wal(&mut conn).map_err(|error| match storage_error(error) {
        unavailable @ StorageError::Unavailable(_) => unavailable,
        other => explain(file, &other),
    })?;
    // A transactional handler expects that the foreign keys of the application's tables are checked.
    conn.batch_execute(&format!("{DURABLE}; pragma foreign_keys = on; pragma journal_size_limit = {LONGEST_LOG}"))
        .map_err(storage_error)?;
    Ok(conn)
}

/// Turns the write-ahead log on. The setting is stored in the file, so only the first connection changes it. If several
/// processes open a new file at the same time, SQLite refuses some of them at once and ignores the busy timeout. So
/// this retries.
fn use_wal(conn: &mut SqliteConnection) -> QueryResult<()> {
    let begun = Instant::now();
    loop {
        match conn.batch_execute("pragma journal_mode = wal") {
            Err(error) if error.to_string().contains("locked") && begun.elapsed() < BUSY_TIMEOUT => {
                thread::sleep(Duration::from_millis(10));
            }
            done => return done,
        }
    }
}

fn explain(file: &str, error: &dyn std::error::Error) -> StorageError {
    let directory = match Path::new(file).parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let advice = if !directory.is_dir() {
        format!("{} is not a directory; create it or correct the database URL", directory.display())
    } else if Path::new(file).is_dir() {
        "it is a directory; name a file in it".to_owned()
    } else if ["not a database", "malformed"].iter().any(|text| error.to_string().contains(text)) {
        "it is damaged or no SQLite file; restore it from a backup or correct the database URL".to_owned()
    } else {
        format!(
            "this process must be able to read and write the file and to create files beside it in {}",
            directory.display()
        )
    };
    StorageError::Config(format!("cannot open the SQLite file {file}: {error}; {advice}"))
}
