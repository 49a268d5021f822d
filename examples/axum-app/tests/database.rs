//! A database for one test, from the testing kit.

use diesel::prelude::*;
use diesel::sql_types::BigInt;
use diesel_async::{AsyncConnection as _, AsyncPgConnection, RunQueryDsl, SimpleAsyncConnection as _};
use diesel_jobs::testing::TestDatabase;

/// One database. It is dropped with this value, and kept if the test panics.
pub(crate) struct Db(TestDatabase);

#[derive(QueryableByName)]
struct Number {
    #[diesel(sql_type = BigInt)]
    number: i64,
}

impl Db {
    /// Creates a database with the shop's and the jobs' tables.
    pub(crate) async fn migrated() -> Self {
        Self(TestDatabase::builder().migrations("migrations").create().await.expect("run `cargo xtask test`"))
    }

    /// Creates a database without tables.
    pub(crate) async fn empty() -> Self {
        let db = Self(TestDatabase::builder().create().await.expect("run `cargo xtask test`"));
        db.run("drop schema jobs cascade; drop table __diesel_schema_migrations").await;
        db
    }

    pub(crate) fn url(&self) -> &str {
        self.0.url()
    }

    pub(crate) async fn conn(&self) -> AsyncPgConnection {
        AsyncPgConnection::establish(self.url()).await.unwrap()
    }

    /// A connection inside a test transaction: nothing that is written through it is ever committed.
    pub(crate) async fn test_conn(&self) -> AsyncPgConnection {
        let mut conn = self.conn().await;
        conn.begin_test_transaction().await.unwrap();
        conn
    }

    pub(crate) async fn run(&self, sql: &str) {
        self.conn().await.batch_execute(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    }

    /// See [`number`].
    pub(crate) async fn number(&self, sql: &str) -> i64 {
        number(&mut self.conn().await, sql).await
    }
}

/// Returns the result of a query of one number.
pub(crate) async fn number(conn: &mut AsyncPgConnection, sql: &str) -> i64 {
    let query = diesel::sql_query(format!("select ({sql})::bigint as number"));
    let row: Number = query.get_result(conn).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    row.number
}
