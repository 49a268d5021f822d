//! A database whose encoding cannot hold every text is refused in words, before anything is created in it.

use diesel_async::{AsyncConnection as _, AsyncPgConnection};
use diesel_jobs_core::StorageError;
use diesel_jobs_core::storage::{Objectives, Severity};
use diesel_jobs_storage::MigrateError;

use super::{admin, url_of};
use crate::client::Client as _;
use crate::fixture::open;

#[tokio::test]
async fn a_database_that_cannot_hold_every_text_is_refused() {
    let mut conn = AsyncPgConnection::establish(&url_of("postgres")).await.unwrap();
    let version = conn.number("select current_setting('server_version_num')::bigint as number").await;
    for encoding in ["LATIN1", "SQL_ASCII", "EUC_JP"] {
        let name = format!("jobs_test_{}", uuid::Uuid::now_v7().simple());
        // From PostgreSQL 15 on, templates may have a locale of ICU, which has no such encodings.
        let provider = if version >= 150_000 { "locale_provider libc" } else { "" };
        admin(&format!("create database {name} template template0 encoding '{encoding}' locale 'C' {provider}")).await;
        let (url, says) = (url_of(&name), format!("the encoding of this database is {encoding}"));
        let config = |error: StorageError| match error {
            StorageError::Config(text) => {
                assert!(text.starts_with(&says) && text.contains("encoding 'UTF8'"), "{text}");
            }
            other => panic!("{encoding}: {other}"),
        };
        let db = open(&url).await;
        config(db.migrator.up().await.unwrap_err());
        config(db.storage.check_schema().await.unwrap_err());
        let findings = db.operator.examine(Objectives::default(), None).await.unwrap();
        assert!(findings[0].severity == Severity::Error && findings[0].what.starts_with(&says), "{findings:?}");

        // As an application migrates.
        let mut conn = AsyncPgConnection::establish(&url).await.unwrap();
        let refused = diesel_jobs_storage::migrate(&mut conn).await.unwrap_err();
        assert!(matches!(&refused, MigrateError::Encoding(found) if found == encoding), "{refused}");
        #[cfg(feature = "postgres-sync")]
        {
            let mut conn = <diesel::PgConnection as diesel::Connection>::establish(&url).unwrap();
            let refused = diesel_jobs_storage::migrate(&mut conn).unwrap_err();
            assert!(matches!(&refused, MigrateError::Encoding(found) if found == encoding), "{refused}");
        }
        assert_eq!(db.migrator.applied().await.unwrap(), [0; 0], "nothing was created");
        drop((db, conn));
        admin(&format!("drop database {name} with (force)")).await;
    }
}
