//! That an old snapshot, which keeps every dead row and index entry in place, costs a claim nothing.

use std::time::Duration;

use diesel::QueryResult;
use diesel::pg::Pg;
use diesel::query_builder::{AstPass, QueryFragment};
use diesel::sql_types::Text;
use diesel_async::{AsyncConnection as _, AsyncPgConnection, RunQueryDsl as _, SimpleAsyncConnection as _};
use jobs_core::storage::{Claim, Storage as _, Wanted, WorkerInfo};
use jobs_core::{Finish, Keep, NewJob, Transition, WorkerId};

use super::PgStorage;
use super::native::{native_query, sql};
use super::queries::claim::ClaimQuery;
use crate::migrations::Migrator as _;

struct Explained<'a>(ClaimQuery<'a>);

impl QueryFragment<Pg> for Explained<'_> {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        sql!(out, "explain (analyze, buffers, costs off) " {self.0})
    }
}

native_query!(Explained<'a> -> Text);

/// The buffers that a claim touches: the plan's first node counts those of all below it.
async fn buffers(conn: &mut AsyncPgConnection, query: ClaimQuery<'_>) -> u64 {
    let plan: Vec<String> = Explained(query).load(conn).await.unwrap();
    let line = plan.iter().find(|line| line.trim_start().starts_with("Buffers: shared")).unwrap();
    line.split([' ', '=']).filter_map(|word| word.parse::<u64>().ok()).sum()
}

async fn run(storage: &PgStorage, conn: &mut AsyncPgConnection, claim: &Claim, jobs: usize) {
    crate::enqueue_all(conn, vec![NewJob::raw("k", "{}"); jobs]).await.unwrap();
    let claimed = storage.claim(claim).await.unwrap();
    assert_eq!(claimed.len(), jobs);
    let complete =
        |job: &jobs_core::ClaimedJob| Finish { lease: job.lease, transition: Transition::Complete(Keep::Nothing) };
    storage.finish(&claimed.iter().map(complete).collect::<Vec<_>>()).await.unwrap();
}

#[tokio::test]
async fn an_old_snapshot_costs_a_claim_nothing() {
    let server = std::env::var("JOBS_TEST_DATABASE_URL").expect("JOBS_TEST_DATABASE_URL: run `cargo xtask test`");
    let name = format!("jobs_test_{}", uuid::Uuid::now_v7().simple());
    let mut admin = AsyncPgConnection::establish(&server).await.unwrap();
    admin.batch_execute(&format!("create database {name}")).await.unwrap();
    let url = format!("{}/{name}", server.rsplit_once('/').unwrap().0);
    let storage = PgStorage::new(&url, 1).unwrap();
    storage.up().await.unwrap();
    let worker = WorkerId::generate();
    let info = WorkerInfo { id: worker, host: "here".into(), pid: 1, queues: vec![], lease: Duration::from_secs(3600) };
    storage.register(&info).await.unwrap();
    let claim = Claim { worker, wanted: vec![Wanted::new("default", 500)], kinds: ["k".to_owned()].into() };

    let mut forgotten = AsyncPgConnection::establish(&url).await.unwrap();
    forgotten.batch_execute("begin isolation level repeatable read; select count(*) from jobs.ready").await.unwrap();
    let mut conn = AsyncPgConnection::establish(&url).await.unwrap();
    for _ in 0..20 {
        run(&storage, &mut conn, &claim, 500).await;
    }
    // The horizon follows about a second behind.
    for _ in 0..4 {
        tokio::time::sleep(Duration::from_millis(500)).await;
        run(&storage, &mut conn, &claim, 1).await;
    }

    let floors = storage.lanes().plan(&claim, false);
    let bottom = storage.lanes().plan(&claim, true);
    let from_floors = buffers(&mut conn, ClaimQuery::new(&claim, &floors)).await;
    let from_bottom = buffers(&mut conn, ClaimQuery::new(&claim, &bottom)).await;
    assert!(from_floors <= 60, "{from_floors} buffers from the floors");
    assert!(from_bottom > 3 * from_floors, "{from_bottom} buffers from the bottom: the snapshot held nothing back");

    drop((storage, conn, forgotten));
    admin.batch_execute(&format!("drop database {name} with (force)")).await.unwrap();
}
