//! The database behind the URL, and what may be said about the URL.

use diesel_jobs_storage::Database;

use super::exit::{CliError, Exit};

/// Commands for people use no handlers: one connection for the storage's own needs is enough.
pub(super) const NO_HANDLERS: usize = 1;

/// Opens the database. A server that is away is the error of the first verb.
pub(super) async fn open(url: &str, handlers: usize) -> Result<Database, CliError> {
    Ok(Database::open(url, handlers).await?)
}

/// The line that is printed for an error. Where the database is away, it says which one was meant.
pub(super) fn explain(error: &CliError, url: &str) -> String {
    match place(url) {
        // A server that says FATAL is up, and has said what it objects to.
        Some(place) if error.exit == Exit::Unreachable && error.to_string().contains("FATAL") => {
            format!("error: {error}. The URL names {place}")
        }
        Some(place) if error.exit == Exit::Unreachable => {
            format!("error: {error}. The URL names {place}: is the server up, and is the URL right?")
        }
        // Whoever follows the advice should know where.
        Some(place) if error.exit == Exit::Schema => format!("error: {error}. The URL names {place}"),
        _ => format!("error: {error}"),
    }
}

/// Where a URL points, without user, password and parameters. `None` where the parts cannot be told apart for sure:
/// a password may hold an unescaped `/`, `?` or `@`.
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
    // `user:password` without a host reads as host and port.
    if !host.split(',').all(is_host) {
        return None;
    }
    let name = tail.strip_prefix('/').and_then(|tail| tail.split(['?', '#']).next()).filter(|name| !name.is_empty());
    // A second URL in it, perhaps, with a password of its own.
    if name.is_some_and(|name| name.contains(':')) {
        return None;
    }
    Some(name.map_or_else(|| host.to_owned(), |name| format!("database {name} at {host}")))
}

/// A name or an address in letters that one can have, with a number as its port if it has one.
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
        // The host forgotten: what stands in its place is the password.
        refuse("postgres://me:XY".to_owned());
        refuse("postgres://me:XY/app".to_owned());
        // The `@` forgotten, or typed as something else.
        refuse("postgres://me:XY\u{16}127.0.0.1:1/app".to_owned());
        refuse("postgres://me:XY127.0.0.1:1/app".to_owned());
        // Two URLs in one.
        refuse("postgres://db.local/postgres://me:XY".to_owned());
    }

    #[test]
    fn a_database_that_is_away_or_not_ready_is_located() {
        let url = "postgres://me:secret@db.local/app";
        assert!(explain(&CliError::new(Exit::Unreachable, "refused"), url).contains("db.local"));
        assert!(explain(&CliError::new(Exit::Schema, "missing"), url).contains("db.local"));
        assert_eq!(explain(&CliError::failed("no"), url), "error: no");
    }
}
