//! `each`: a job for each row of a query. Ours inserts them with one statement (`enqueue_each`). For comparison the
//! same rows are read by the client, which then enqueues a job for each (`enqueue_all`). The raw baseline is the
//! statement as one would write it by hand.

use std::time::Instant;

use anyhow::{Result, ensure};
use diesel::prelude::*;
use diesel_async::RunQueryDsl;
use diesel_jobs::enqueue::EnqueueEach as _;

use super::proc::megabytes;
use crate::bench::Bench;
use crate::kinds::Noop;
use crate::report::{Line, Run};
use crate::server::Database;

diesel::table! {
    person (id) {
        id -> BigInt,
        name -> Text,
    }
}

const RAW: &str = "insert into jobs.ready (kind, queue, args)
    select 'noop', 'default', json_build_object('id', id, 'name', name) from person";

pub(crate) async fn measure(bench: &Bench) -> Result<()> {
    const NAME: &str = "rows of a query";
    let mut lines = Vec::new();
    if bench.options.wants(NAME) {
        let rows = bench.options.jobs(1_000_000);
        let runs = bench.alternate(NAME, async || ours(bench, rows).await, async || raw(bench, rows).await).await?;
        let line = Line { n: Some(rows), connections: Some(1), ..Line::new("each", NAME, "jobs/s") };
        bench.report(&mut lines, line.with(&runs))?;
    }
    bench.finish("each: a job for each row of a query", &lines);
    Ok(())
}

async fn people(database: &Database<'_>, rows: u64) -> Result<()> {
    let sql = format!(
        "create table person (id bigint primary key, name text not null);
         insert into person select id, 'hello' from generate_series(1, {rows}) id"
    );
    database.client.batch_execute(&sql).await?;
    database.settle().await
}

async fn ours(bench: &Bench, rows: u64) -> Result<Run> {
    let database = bench.server.create().await?;
    people(&database, rows).await?;
    let mut conn = database.connection().await?;
    let memory = || megabytes(std::process::id(), "VmRSS").unwrap_or_default();
    let before = memory();
    let begun = Instant::now();
    let enqueued = person::table.enqueue_each(&mut conn, Noop::columns(person::id, person::name)).await?;
    let time = begun.elapsed();
    let grown = memory() - before;
    ensure!(enqueued as u64 == rows, "{enqueued} jobs for {rows} rows");
    check(&database, rows).await?;

    database.client.batch_execute("truncate jobs.ready").await?;
    database.settle().await?;
    let begun = Instant::now();
    let people: Vec<(i64, String)> = person::table.select((person::id, person::name)).load(&mut conn).await?;
    diesel_jobs::enqueue_all(&mut conn, people.into_iter().map(|(id, name)| Noop { id, name })).await?;
    let by_client = begun.elapsed();
    check(&database, rows).await?;
    database.close().await?;
    let rate = |time: std::time::Duration| rows as f64 / time.as_secs_f64();
    Ok(Run::new(rate(time)).with("from the client", rate(by_client)).with("client grew by, MB", grown))
}

async fn raw(bench: &Bench, rows: u64) -> Result<Run> {
    let database = bench.server.create().await?;
    people(&database, rows).await?;
    let begun = Instant::now();
    database.client.batch_execute(RAW).await?;
    let time = begun.elapsed();
    check(&database, rows).await?;
    database.close().await?;
    Ok(Run::new(rows as f64 / time.as_secs_f64()))
}

async fn check(database: &Database<'_>, rows: u64) -> Result<()> {
    let there = database.count("select count(*) from jobs.ready").await?;
    ensure!(there == i64::try_from(rows)?, "{there} of {rows} jobs are there");
    Ok(())
}
