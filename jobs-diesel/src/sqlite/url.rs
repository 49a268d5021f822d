//! Takes the file name from a URL.

use std::path::{Path, PathBuf};

use diesel_jobs_core::StorageError;
use diesel_jobs_core::storage::StorageResult;

/// The file that `sqlite://path` or `sqlite:path` names. Fails with `Config` if the URL names none that can be used.
pub(super) fn file(url: &str) -> StorageResult<String> {
    let path = url.strip_prefix("sqlite:").unwrap_or(url);
    let path = path.strip_prefix("//").unwrap_or(path);
    let refuse = |why: &str| Err(StorageError::Config(format!("the database URL cannot be used: {why}")));
    if path.is_empty() {
        return refuse("sqlite: names no file; write sqlite://path/to/file.db");
    }
    if path == ":memory:" {
        return refuse(
            "a SQLite database in memory belongs to one connection, and a worker, its heartbeat and your application \
             use several; write sqlite://path/to/file.db, in a temporary directory if nothing is to stay",
        );
    }
    if path.contains('?') {
        return refuse("sqlite: takes no options after `?`; write sqlite://path/to/file.db");
    }
    if path.contains("://") {
        // The message does not repeat it, because it may contain a password.
        return refuse("sqlite: is followed by another URL; write one URL, such as sqlite://path/to/file.db");
    }
    let authority = path.split(['/', '\\']).next().unwrap_or(path);
    if authority.split_once(':').is_some_and(|(_, password)| password.contains('@')) {
        // Nor does this one.
        return refuse(
            "sqlite: is followed by a user and a password, which SQLite does not have; write sqlite://path/to/file.db",
        );
    }
    if path.contains('\0') {
        return refuse("sqlite: the file name holds a NUL character");
    }
    // SQLite would read a name that begins with `file:` as a URI.
    Ok(if path.starts_with("file:") { format!("./{path}") } else { path.to_owned() })
}

/// The file of a URL, if its directory is there and the file is not. Whether there is a file that this user may not
/// read, SQLite says.
pub(crate) fn missing_file(url: &str) -> Option<PathBuf> {
    let file = PathBuf::from(file(url).ok()?);
    let directory = file.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    (directory.is_dir() && matches!(file.try_exists(), Ok(false))).then_some(file)
}

#[cfg(test)]
mod tests {
    use super::file;

    #[test]
    fn both_forms_name_a_file() {
        assert_eq!(file("sqlite://jobs.db").unwrap(), "jobs.db");
        assert_eq!(file("sqlite:jobs.db").unwrap(), "jobs.db");
        assert_eq!(file("sqlite:///var/lib/app/jobs.db").unwrap(), "/var/lib/app/jobs.db");
        assert_eq!(file("sqlite:file:x").unwrap(), "./file:x");
        assert_eq!(file(r"sqlite:C:\Users\me@corp\app.db").unwrap(), r"C:\Users\me@corp\app.db");
        assert_eq!(file("sqlite://me@home.db").unwrap(), "me@home.db");
        assert_eq!(file("sqlite:///backup/12:30@noon.db").unwrap(), "/backup/12:30@noon.db");
    }

    #[test]
    fn what_names_no_file_is_refused_with_a_reason() {
        for (url, reason) in [
            ("sqlite://", "names no file"),
            ("sqlite://:memory:", "belongs to one connection"),
            ("sqlite::memory:", "belongs to one connection"),
            ("sqlite://a.db?mode=ro", "no options"),
            ("sqlite://postgres://me:s3cret@h/x", "another URL"),
            ("sqlite://me:s3cret@h/x", "a user and a password"),
            ("sqlite:me:s3cret@h", "a user and a password"),
            ("sqlite://a\0b", "NUL"),
        ] {
            let error = file(url).unwrap_err().to_string();
            assert!(error.contains(reason) && !error.contains("s3cret"), "{url:?}: {error}");
        }
    }
}
