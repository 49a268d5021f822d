//! What the server does for the hot statements: an old snapshot, which keeps every dead row and index entry in place, costs
//! a claim nothing, and statistics that are wrong, as those of a queue always are, spoil no plan.

use std::time::Duration;

use diesel::QueryResult;
use diesel::pg::Pg;
use diesel::query_builder::{AstPass, Query, QueryFragment, QueryId};
use diesel::sql_types::Text;
use diesel_async::{AsyncConnection as _, AsyncPgConnection, RunQueryDsl as _, SimpleAsyncConnection as _};
use jobs_core::storage::{Claim, Storage as _, Wanted, WorkerInfo};
use jobs_core::{Finish, JobId, Keep, Lease, NewJob, Transition, WorkerId};

use super::PgStorage;
use super::native::sql;
use super::queries::claim::ClaimQuery;
use super::queries::complete::CompleteQuery;
use super::queries::finish::FinishQuery;
use super::queries::next_due::NextDueQuery;
use crate::migrations::Migrator as _;

struct Explained<Q> {
    how: &'static str,
    query: Q,
}

impl<Q: QueryFragment<Pg>> QueryFragment<Pg> for Explained<Q> {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        out.push_sql("explain (");
        out.push_sql(self.how);
        sql!(out, ") " {self.query})
    }
}

impl<Q> QueryId for Explained<Q> {
    type QueryId = ();
    const HAS_STATIC_QUERY_ID: bool = false;
}

impl<Q> Query for Explained<Q> {
    type SqlType = Text;
}

impl<Q, C> diesel::RunQueryDsl<C> for Explained<Q> {}

async fn plan(
    conn: &mut AsyncPgConnection,
    how: &'static str,
    query: impl QueryFragment<Pg> + Send + Sync,
) -> Vec<String> {
    Explained { how, query }.load(conn).await.unwrap()
}

/// The buffers that a claim touches: the plan's first node counts those of all below it.
async fn buffers(conn: &mut AsyncPgConnection, query: ClaimQuery<'_>) -> u64 {
    let plan = plan(conn, "analyze, buffers, costs off", query).await;
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

/// A database of the test's own with our schema.
async fn database() -> (AsyncPgConnection, String, PgStorage) {
    let server = std::env::var("JOBS_TEST_DATABASE_URL").expect("JOBS_TEST_DATABASE_URL: run `cargo xtask test`");
    let name = format!("jobs_test_{}", uuid::Uuid::now_v7().simple());
    let mut admin = AsyncPgConnection::establish(&server).await.unwrap();
    admin.batch_execute(&format!("create database {name}")).await.unwrap();
    let storage = PgStorage::new(&format!("{}/{name}", server.rsplit_once('/').unwrap().0), 1).unwrap();
    storage.up().await.unwrap();
    (admin, name, storage)
}

#[tokio::test]
async fn wrong_statistics_spoil_no_plan() {
    let (mut admin, name, storage) = database().await;
    let worker = WorkerId::generate();
    let claim = Claim { worker, wanted: vec![Wanted::new("q", 500)], kinds: ["k".to_owned()].into() };
    let scans = storage.lanes().plan(&claim, false);
    let finishes = |transition: &Transition| {
        let finish = |id| Finish { lease: Lease { job: JobId(id), number: 1, worker }, transition: transition.clone() };
        (1..500).map(finish).collect::<Vec<_>>()
    };
    let (completed, snoozed) =
        (finishes(&Transition::Complete(Keep::Forever)), finishes(&Transition::Snooze(Duration::ZERO)));
    let mut conn = storage.connection().await.unwrap();
    let full = "insert into jobs.running (id, run_at, enqueued_at, lease, priority, attempt, max_attempts, crashes, worker, kind, queue)
        select id, now(), now(), 1, 0, 1, 25, 0, gen_random_uuid(), 'k', 'q' from generate_series(1, 1000) id;
        insert into jobs.ready (kind, args) select 'k', '{}' from generate_series(1, 1000)";
    for statistics in ["select 1", "analyze", full, "analyze"] {
        conn.batch_execute(statistics).await.unwrap();
        for plan in [
            plan(&mut conn, "costs off", ClaimQuery::new(&claim, &scans)).await,
            plan(&mut conn, "costs off", NextDueQuery::new(&claim, &scans)).await,
            plan(&mut conn, "costs off", CompleteQuery::new(&completed).unwrap()).await,
            plan(&mut conn, "costs off", FinishQuery::new(&snoozed)).await,
        ] {
            let bad = |line: &&String| {
                let table =
                    ["ready", "running", "finished"].iter().any(|table| line.contains(&format!("Seq Scan on {table}")));
                table || ["Hash Join", "Merge Join", "Join Filter: ((r.", "Sort"].iter().any(|step| line.contains(step))
            };
            assert_eq!(plan.iter().find(bad), None, "after {statistics}: {plan:#?}");
        }
    }
    drop((conn, storage));
    admin.batch_execute(&format!("drop database {name} with (force)")).await.unwrap();
}

#[tokio::test]
async fn an_old_snapshot_costs_a_claim_nothing() {
    let (mut admin, name, storage) = database().await;
    let worker = WorkerId::generate();
    let info = WorkerInfo { id: worker, host: "here".into(), pid: 1, queues: vec![], lease: Duration::from_secs(3600) };
    storage.register(&info).await.unwrap();
    let claim = Claim { worker, wanted: vec![Wanted::new("default", 500)], kinds: ["k".to_owned()].into() };

    let mut forgotten = storage.connector.connect().await.unwrap();
    forgotten.batch_execute("begin isolation level repeatable read; select count(*) from jobs.ready").await.unwrap();
    let mut conn = storage.connector.connect().await.unwrap();
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
