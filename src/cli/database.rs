//! Opens the database of a URL, and extracts the part of the URL that may be printed.

use diesel_jobs_storage::Database;

use super::exit::{CliError, Exit};
use super::output::printable;

/// Commands for people run no handlers. One connection for the storage itself is enough.
pub(super) const NO_HANDLERS: usize = 1;

/// Opens the database without connecting. An unreachable server makes the first statement fail, and a SQLite file that
/// does not exist fails here: SQLite would create it, and a misspelt path would look like a database without jobs.
pub(super) async fn open(url: &str, handlers: usize) -> Result<Database, CliError> {
    match missing_file(url) {
        Some(problem) => {
            Err(CliError::new(Exit::Schema, problem + "; run `worker migrate`, which creates it, or correct the URL"))
        }
        None => create(url, handlers).await,
    }
}

/// Opens the database, and creates a SQLite file if there is none.
pub(super) async fn create(url: &str, handlers: usize) -> Result<Database, CliError> {
    Ok(Database::open(url, handlers).await?)
}

/// Says that the SQLite file of the URL is missing.
pub(super) fn missing_file(url: &str) -> Option<String> {
    let file = Database::missing_file(url)?;
    Some(format!("the SQLite file {} is missing", printable(&file.to_string_lossy())))
}

/// Returns the line that is printed for an error. If the database is unreachable or its schema is wrong, the line also
/// names the database.
pub(super) fn explain(error: &CliError, url: &str) -> String {
    match place(url) {
        // A server that answers FATAL is up, and its message states the reason.
        Some(place) if error.exit == Exit::Unreachable && error.to_string().contains("FATAL") => {
            format!("error: {error}. The URL names {place}")
        }
        Some(place) if error.exit == Exit::Unreachable => {
            format!("error: {error}. The URL names {place}: is the server up, and is the URL right?")
        }
        // The message advises a command. The reader must see which database it concerns.
        Some(place) if error.exit == Exit::Schema => format!("error: {error}. The URL names {place}"),
        _ => format!("error: {error}"),
    }
}

/// Returns the database and host of a URL, without user, password and parameters. Returns `None` if the parts cannot be
/// separated with certainty: a password may contain an unescaped `/`, `?` or `@`.
pub(super) fn place(url: &str) -> Option<String> {
    let (scheme, rest) = url.split_once("://")?;
    if scheme == "sqlite" {
        return Some(rest.split('?').next().unwrap_or(rest).to_owned());
    }
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, tail) = rest.split_at(end);
    if tail.contains('@') {
        return None;
    }
    let host = authority.rsplit('@').next().filter(|host| !host.is_empty()).unwrap_or("the local socket");
    // `user:password` without a host looks like host and port.
    if !host.split(',').all(is_host) {
        return None;
    }
    let name = tail.strip_prefix('/').and_then(|tail| tail.split(['?', '#']).next()).filter(|name| !name.is_empty());
    // It may be a second URL, with a password of its own.
    if name.is_some_and(|name| name.contains(':')) {
        return None;
    }
    Some(name.map_or_else(|| host.to_owned(), |name| format!("database {name} at {host}")))
}

/// Whether this is a host name or an address, with an optional port number.
fn is_host(written: &str) -> bool {
    let (name, port) = match written.strip_prefix('[').and_then(|inner| inner.split_once(']')) {
        Some((address, rest)) => (address.replace(':', ""), rest.strip_prefix(':').unwrap_or(rest)),
        None => {
            let (name, port) = written.split_once(':').unwrap_or((written, ""));
            (name.to_owned(), port)
        }
    };
    name.chars().all(|c| c.is_alphanumeric() || "-_.% ".contains(c)) && port.chars().all(|c| c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_host_and_name() {
        assert_eq!(
            place("postgres://me:secret@db.local:5433/app?sslmode=require").unwrap(),
            "database app at db.local:5433"
        );
        assert_eq!(place("postgres:///app?user=me&password=secret").unwrap(), "database app at the local socket");
        assert_eq!(place("postgres://db.local").unwrap(), "db.local");
        assert_eq!(place("postgres://me@[::1]:5433,db-2:5432/app").unwrap(), "database app at [::1]:5433,db-2:5432");
        assert_eq!(place("sqlite:///var/lib/app/jobs.db?mode=rw").unwrap(), "/var/lib/app/jobs.db");
    }

    #[test]
    fn no_place_repeats_a_password() {
        let refuse = |url: String| {
            let shown = place(&url).unwrap_or_default();
            assert!(!shown.contains(['X', 'Y']) && !shown.contains("me:"), "{url}: {shown}");
        };
        for password in ["XXYY", "XX/YY", "XX?YY", "XX#YY", "XX@YY", "XX:YY", "12/YY", "X@X/Y@Y", "/", "@"] {
            for end in ["@db.local/app", "@db.local", "@db.local/app?password=X"] {
                refuse(format!("postgres://me:{password}{end}"));
            }
        }
        // The host is missing, and the password is in its place.
        refuse("postgres://me:XY".to_owned());
        refuse("postgres://me:XY/app".to_owned());
        // The `@` is missing, or another character is in its place.
        refuse("postgres://me:XY\u{16}127.0.0.1:1/app".to_owned());
        refuse("postgres://me:XY127.0.0.1:1/app".to_owned());
        // Two URLs in one.
        refuse("postgres://db.local/postgres://me:XY".to_owned());
    }

    #[test]
    fn an_error_of_an_unreachable_or_unmigrated_database_names_the_host() {
        let url = "postgres://me:secret@db.local/app";
        assert!(explain(&CliError::new(Exit::Unreachable, "refused"), url).contains("db.local"));
        assert!(explain(&CliError::new(Exit::Schema, "missing"), url).contains("db.local"));
        assert_eq!(explain(&CliError::failed("no"), url), "error: no");
    }
}
