//! Opens the database of a URL, and says which one an error is about.

use diesel_jobs_storage::{Database, DatabaseBuilder};

use super::exit::{CliError, Exit};
use super::output::printable;
use super::place::place;
use super::url::Chosen;

/// Commands for people run no handlers. One connection for the storage itself is enough.
pub(super) const NO_HANDLERS: usize = 1;

/// Opens the database without connecting. An unreachable server makes the first statement fail, and a SQLite file that
/// does not exist fails here: SQLite would create it, and a misspelt path would look like a database without jobs.
pub(super) async fn open(chosen: &Chosen, handlers: usize) -> Result<Database, CliError> {
    Ok(builder(chosen)?.handlers(handlers).open().await?)
}

/// The same with more than the number of connections.
pub(super) fn builder(chosen: &Chosen) -> Result<DatabaseBuilder, CliError> {
    match missing_file(chosen.url()?) {
        Some(problem) => {
            Err(CliError::new(Exit::Schema, problem + "; run `worker migrate`, which creates it, or correct the URL"))
        }
        None => chosen.builder(),
    }
}

/// Opens the database, and creates a SQLite file if there is none.
pub(super) async fn create(chosen: &Chosen, handlers: usize) -> Result<Database, CliError> {
    Ok(chosen.builder()?.handlers(handlers).open().await?)
}

/// Says that the SQLite file of the URL is missing.
pub(super) fn missing_file(url: &str) -> Option<String> {
    let file = Database::missing_file(url)?;
    Some(format!("the SQLite file {} is missing", printable(&file.to_string_lossy())))
}

/// Returns the line that is printed for an error. If the database is unreachable, refuses the credentials or has a
/// wrong schema, the line also names the database.
pub(super) fn explain(error: &CliError, url: &str) -> String {
    match place(url) {
        Some(place) if error.exit == Exit::Credentials => {
            format!("error: {error}. The URL names {place}: are its user and its password or certificate right?")
        }
        // A message of a missing schema advises a command. The reader must see which database it concerns.
        Some(place) if matches!(error.exit, Exit::Unreachable | Exit::Schema) => {
            format!("error: {error}. The URL names {place}")
        }
        _ => format!("error: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_of_an_unreachable_or_unmigrated_database_names_the_host() {
        let url = "postgres://me:secret@db.local/app";
        for exit in [Exit::Unreachable, Exit::Schema] {
            let explained = explain(&CliError::new(exit, "missing"), url);
            assert_eq!(explained, "error: missing. The URL names database app at db.local");
        }
        assert_eq!(explain(&CliError::failed("no"), url), "error: no");
    }
}
