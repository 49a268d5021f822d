//! A database on another server that has the same tables, and subscribes to all of them.

use std::time::{Duration, Instant};

use anyhow::Result;
use diesel_async::{AsyncConnection as _, AsyncPgConnection};
use tokio_postgres::Client;
use torture::cluster::connect;
use torture::history;

use crate::suite::fixture::{Fixture, number};

/// The tables that must be equal in the end, and whether they must contain rows.
const TABLES: [(&str, bool); 8] = [
    ("ready", false),
    ("running", false),
    ("finished", true),
    ("job_error", true),
    ("payload", true),
    ("dead_letter", false),
    ("worker", false),
    ("schedule", false),
];
/// Drops old subscriptions. PostgreSQL does not drop a database with a subscription, and dropping a subscription needs
/// its slot, which may not exist any more.
const FORGET: &str = "do $$ declare name text; begin
    for name in select subname from pg_subscription where subdbid = (select oid from pg_database where datname = current_database()) loop
        execute format('alter subscription %I disable', name);
        execute format('alter subscription %I set (slot_name = none)', name);
        execute format('drop subscription %I', name);
    end loop;
end $$";
const POLL_INTERVAL: Duration = Duration::from_millis(200);

pub(super) struct Subscriber<'a> {
    fixture: &'a Fixture<'a>,
    name: &'static str,
    database: String,
    conn: Client,
}

impl<'a> Subscriber<'a> {
    /// Creates the database and subscribes. Returns when the existing rows are copied.
    pub(super) async fn start(fixture: &'a Fixture<'a>, published: &Fixture<'_>, name: &'static str) -> Result<Self> {
        let database = format!("{}_{name}", fixture.database());
        let url = fixture.cluster.url(&database);
        let admin = fixture.connect().await?;
        let exists = format!("select count(*) from pg_database where datname = '{database}'");
        if number(&admin, &exists).await? > 0 {
            connect(&url).await?.batch_execute(FORGET).await?;
        }
        fixture.cluster.create(&database).await?;
        diesel_jobs::migrate(&mut AsyncPgConnection::establish(&url).await?).await?;
        let conn = connect(&url).await?;
        history::create(&conn).await?;
        // The rows of this table come from the publisher, too.
        conn.batch_execute("truncate jobs.schema_migration").await?;
        conn.batch_execute(&format!(
            "create subscription {name} connection 'host=127.0.0.1 port={} dbname={} user=tester sslmode=disable' publication everything",
            published.cluster.port(),
            published.database()
        ))
        .await?;
        while number(&conn, "select count(*) from pg_subscription_rel where srsubstate <> 'r'").await? > 0 {
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        Ok(Self { fixture, name, database, conn })
    }

    pub(super) async fn disable(&self) -> Result<()> {
        Ok(self.conn.batch_execute(&format!("alter subscription {} disable", self.name)).await?)
    }

    pub(super) async fn enable(&self) -> Result<()> {
        Ok(self.conn.batch_execute(&format!("alter subscription {} enable", self.name)).await?)
    }

    /// Returns how many jobs have ended in this copy so far.
    pub(super) async fn jobs(&self) -> Result<i64> {
        number(&self.conn, "select count(*) from jobs.finished").await
    }

    /// Returns the tables that still differ from the publisher's after at most `limit`.
    pub(super) async fn differences(&self, publisher: &Client, limit: Duration) -> Result<Vec<String>> {
        let begun = Instant::now();
        loop {
            let mut differences = Vec::new();
            for (table, is_used) in TABLES {
                let (there, here) = (content(publisher, table).await?, content(&self.conn, table).await?);
                if there != here || is_used && there.0 == 0 {
                    differences.push(format!(
                        "jobs.{table} has {} rows at the publisher and {} at the subscriber that was {}",
                        there.0, here.0, self.name
                    ));
                }
            }
            if differences.is_empty() || begun.elapsed() > limit {
                return Ok(differences);
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    /// Drops the subscription and the database.
    pub(super) async fn end(self) -> Result<()> {
        self.conn.batch_execute(&format!("drop subscription {}", self.name)).await?;
        self.fixture.cluster.remove(&self.database).await
    }
}

/// Returns the number of rows, and a hash of their content.
async fn content(conn: &Client, table: &str) -> Result<(i64, Option<String>)> {
    let sql =
        format!("select count(*), md5(string_agg(t::text, ';' order by t::text collate \"C\")) from jobs.{table} t");
    let row = conn.query_one(&sql, &[]).await?;
    Ok((row.get(0), row.get(1)))
}
