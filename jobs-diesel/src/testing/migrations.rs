//! The application's migrations, as Diesel keeps them: a directory with a file `up.sql` for each version.

use std::path::Path;

use diesel_jobs_core::StorageError;
use diesel_jobs_core::storage::StorageResult;

/// One version of the application's tables.
#[derive(Debug, Hash)]
pub(super) struct UserMigration {
    /// As Diesel records it.
    pub(super) version: String,
    pub(super) directory: String,
    pub(super) up: String,
    /// Whether the file runs in a transaction.
    pub(super) in_transaction: bool,
}

/// Reads the migrations of a directory.
pub(super) fn read(directory: &Path) -> StorageResult<Vec<UserMigration>> {
    let problem = |error: std::io::Error| {
        StorageError::Config(format!("the migrations in {} cannot be read: {error}", directory.display()))
    };
    let mut migrations = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(problem)? {
        let path = entry.map_err(problem)?.path();
        let up = path.join("up.sql");
        if !up.exists() {
            continue;
        }
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let metadata = std::fs::read_to_string(path.join("metadata.toml")).unwrap_or_default();
        migrations.push(UserMigration {
            version: name.split('_').next().unwrap_or_default().replace('-', ""),
            directory: name,
            up: std::fs::read_to_string(up).map_err(problem)?,
            in_transaction: !metadata.replace(' ', "").contains("run_in_transaction=false"),
        });
    }
    Ok(migrations)
}
