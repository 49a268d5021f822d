//! Which files can be opened, and the errors for those that cannot.

use diesel_jobs_core::StorageError;
use diesel_jobs_storage::Database;

use super::Sqlite;
use crate::fixture::run;

#[test]
fn both_forms_of_a_url_open_the_same_file() {
    run::<Sqlite, _>(async |f: Sqlite| {
        let short = f.url().replace("sqlite://", "sqlite:");
        for url in [f.url(), short] {
            Database::open(&url, 1).await.unwrap().storage.check_schema().await.unwrap();
        }
    });
}

#[test]
fn a_file_that_cannot_be_opened_says_why_and_what_to_do() {
    run::<Sqlite, _>(async |f: Sqlite| {
        let inside = |name: &str| format!("sqlite://{}/{name}", f.directory().display());
        std::fs::write(
            f.directory().join("text.db"),
            "this is a letter, and a rather long one, not a database. ".repeat(20),
        )
        .unwrap();
        std::fs::create_dir(f.directory().join("directory.db")).unwrap();
        for (url, reason) in [
            (inside("missing/jobs.db"), "is not a directory; create it"),
            (inside("jobs.db/jobs.db"), "is not a directory; create it"),
            (inside("directory.db"), "it is a directory; name a file in it"),
            (inside("text.db"), "not a database"),
            ("sqlite:///proc/jobs.db".to_owned(), "must be able to read and write"),
            ("sqlite://:memory:".to_owned(), "belongs to one connection"),
        ] {
            let error = Database::open(&url, 1).await.unwrap_err();
            assert!(matches!(error, StorageError::Config(_)), "{url}: {error:?}");
            assert!(error.to_string().contains(reason), "{url}: {error}");
            assert_eq!(error.to_string().lines().count(), 1, "{error}");
        }
    });
}
