//! How the server plans the hot statements. An old snapshot keeps every dead row and index entry in place, but it costs
//! a claim nothing. Statistics of a queue are always wrong, but they cause no bad plan.

use std::time::Duration;

use chrono::DateTime;
use diesel::QueryResult;
use diesel::pg::Pg;
use diesel::query_builder::{AstPass, Query, QueryFragment, QueryId};
use diesel::sql_types::Text;
use diesel_async::{AsyncConnection as _, AsyncPgConnection, RunQueryDsl as _, SimpleAsyncConnection as _};
use diesel_jobs_core::flags::JobFlags;
use diesel_jobs_core::storage::{Claim, PassOn, Storage as _, Waiting, Wanted, WorkerInfo};
use diesel_jobs_core::{Finish, JobId, Keep, Lease, NewJob, Output, Transition, WorkerId};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::PgStorage;
use super::levels::{Plan, Scan};
use super::native::sql;
use super::queries::claim::{ClaimInTurnsQuery, ClaimQuery};
use super::queries::claim_few::ClaimFewQuery;
use super::queries::complete::CompleteQuery;
use super::queries::delete::DeleteQuery;
use super::queries::discover::DiscoverQuery;
use super::queries::finish::FinishQuery;
use super::queries::finish_variants::FinishUnlockedQuery;
use super::queries::next_due::NextDueQuery;
use super::queries::prune::PruneQuery;
use super::queries::rescan::RescanQuery;
use super::queries::set_apart::SetWaitingApart;
use super::queries::store_outputs::StoreOutputsQuery;
use super::queries::waiting_queues::WaitingQueuesQuery;
use crate::migrations::Migrator as _;
use crate::stopwatch::Stopwatch;

/// Only our tables: on a busy machine, analyzing all tables of a database takes longer than a worker's statement may.
pub(super) const ANALYZE: &str = "analyze jobs.ready, jobs.running, jobs.finished, jobs.payload, jobs.job_error";

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

pub(super) async fn plan(
    conn: &mut AsyncPgConnection,
    how: &'static str,
    query: impl QueryFragment<Pg> + Send + Sync,
) -> Vec<String> {
    Explained { how, query }.load(conn).await.unwrap()
}

/// How many buffers a statement touches, found in memory or read. The plan's first node includes those of all nodes
/// below.
pub(super) async fn buffers(conn: &mut AsyncPgConnection, query: impl QueryFragment<Pg> + Send + Sync) -> u64 {
    let plan = plan(conn, "analyze, buffers, costs off", query).await;
    touched(plan.iter())
}

/// Buffers that are written (`dirtied`, `written`) do not count, because the statement has touched them already.
pub(super) fn touched<'a>(mut plan: impl Iterator<Item = &'a String>) -> u64 {
    let line = plan.find(|line| line.trim_start().starts_with("Buffers: shared")).unwrap();
    let counts = line.split_whitespace().filter_map(|word| word.split_once('='));
    counts.filter(|(what, _)| matches!(*what, "hit" | "read")).map(|(_, count)| count.parse::<u64>().unwrap()).sum()
}

pub(super) async fn run(storage: &PgStorage, conn: &mut AsyncPgConnection, claim: &Claim, jobs: usize) {
    crate::enqueue_all(conn, vec![NewJob::raw("k", "{}"); jobs]).await.unwrap();
    let claimed = storage.claim(claim).await.unwrap();
    assert_eq!(claimed.len(), jobs);
    let complete = |job| Finish::new(job, Transition::Complete(Keep::Nothing));
    storage.finish(&claimed.iter().map(complete).collect::<Vec<_>>(), PassOn::Nothing).await.unwrap();
}

fn server() -> String {
    std::env::var("JOBS_TEST_DATABASE_URL").expect("JOBS_TEST_DATABASE_URL: run `cargo xtask test`")
}

/// The URL of another database on the same server.
pub(super) fn url(name: &str) -> String {
    format!("{}/{name}", server().rsplit_once('/').unwrap().0)
}

/// A database for one test, with our schema. On its storage no statement counts as slow.
pub(super) async fn database() -> (AsyncPgConnection, String, PgStorage) {
    let name = format!("jobs_test_{}", uuid::Uuid::now_v7().simple());
    let mut admin = AsyncPgConnection::establish(&server()).await.unwrap();
    admin.batch_execute(&format!("create database {name}")).await.unwrap();
    let storage = PgStorage::new(&url(&name), 1, Stopwatch::StandsStill).unwrap();
    storage.up().await.unwrap();
    (admin, name, storage)
}

#[tokio::test]
async fn wrong_statistics_spoil_no_plan() {
    let (mut admin, name, storage) = database().await;
    let worker = WorkerId::generate();
    let claim = Claim::new(worker, vec![Wanted::new("q", 500)], ["k".to_owned()]);
    let in_turns = Claim { most: Some(3), ..claim.clone() };
    let plan_of_all = storage.levels(worker, |levels| levels.plan_of_all(&claim, std::time::Instant::now()));
    let finishes = |transition: &Transition| {
        let finish = |id| Finish {
            lease: Lease { job: JobId(id), number: 1, worker },
            flags: JobFlags::default(),
            transition: transition.clone(),
        };
        (1..500).map(finish).collect::<Vec<_>>()
    };
    let completed = finishes(&Transition::Complete(Keep::Forever));
    let (forgotten, snoozed) =
        (finishes(&Transition::Complete(Keep::Nothing)), finishes(&Transition::Snooze(Duration::ZERO)));
    let returned = finishes(&Transition::CompleteWith(Keep::Forever, Output::new("x")));
    let mut conn = storage.connection().await.unwrap();
    let full = "insert into jobs.running (id, run_at, enqueued_at, lease, priority, attempt, max_attempts, crashes, worker, kind, queue)
        select id, now(), now(), 1, 0, 1, 25, 0, gen_random_uuid(), 'k', 'q' from generate_series(1, 1000) id;
        insert into jobs.ready (kind, args) select 'k', '{}' from generate_series(1, 1000)";
    let level = Plan {
        scans: vec![Scan {
            queue: 0,
            hi: 0,
            lo: 0,
            floor: Some(DateTime::UNIX_EPOCH),
            resume_at: None,
            try_all_rows: false,
        }],
        of_queue: std::iter::once(0..1).collect(),
        lag: Duration::from_secs(1),
    };
    // The tables keep their pages, but count as empty.
    let (empty, emptied) =
        ("delete from jobs.running; delete from jobs.ready", "vacuum (truncate false) jobs.running, jobs.ready");
    for statistics in ["select 1", ANALYZE, full, ANALYZE, empty, emptied, full] {
        conn.batch_execute(statistics).await.unwrap();
        for plan in [
            plan(&mut conn, "costs off", ClaimQuery::new(&claim, &plan_of_all)).await,
            plan(&mut conn, "costs off", ClaimFewQuery::new(&claim, &level).unwrap()).await,
            plan(&mut conn, "costs off", ClaimInTurnsQuery::new(&in_turns, &plan_of_all).unwrap()).await,
            plan(&mut conn, "costs off", NextDueQuery::new(&claim, &plan_of_all, Duration::from_secs(3))).await,
            plan(&mut conn, "costs off", DiscoverQuery::new(&claim, &plan_of_all)).await,
            plan(&mut conn, "costs off", RescanQuery::new(&claim, &plan_of_all)).await,
            plan(&mut conn, "costs off", WaitingQueuesQuery).await,
            plan(&mut conn, "costs off", CompleteQuery::new(&completed).unwrap()).await,
            plan(&mut conn, "costs off", DeleteQuery::new(&forgotten).unwrap()).await,
            plan(&mut conn, "costs off", FinishQuery::new(&snoozed)).await,
            plan(&mut conn, "costs off", FinishUnlockedQuery(FinishQuery::new(&snoozed))).await,
            plan(&mut conn, "costs off", StoreOutputsQuery::for_batch(&returned).remove(0)).await,
        ] {
            let bad = |line: &&String| {
                let table = ["ready", "running", "finished", "payload", "job_error", "output"]
                    .iter()
                    .any(|table| line.contains(&format!("Seq Scan on {table}")));
                table || ["Hash Join", "Merge Join", "Join Filter: ((r.", "Sort"].iter().any(|step| line.contains(step))
            };
            assert_eq!(plan.iter().find(bad), None, "after {statistics}: {plan:#?}");
        }
        let prune = plan(&mut conn, "costs off", PruneQuery { limit: 1000, after: i64::MIN }).await;
        let whole = |line: &&String| {
            line.contains("using ready_claim")
                || ["ready", "running", "finished", "output"]
                    .iter()
                    .any(|table| line.contains(&format!("Seq Scan on {table}")))
        };
        assert_eq!(prune.iter().find(whole), None, "after {statistics}: {prune:#?}");
        let apart = plan(&mut conn, "costs off", SetWaitingApart::new(&claim, &plan_of_all)).await;
        let whole = |line: &&String| line.contains("Seq Scan on ready");
        assert_eq!(apart.iter().find(whole), None, "after {statistics}: {apart:#?}");
    }
    drop((conn, storage));
    admin.batch_execute(&format!("drop database {name} with (force)")).await.unwrap();
}

/// Whether this connection has one plan for all values, and a time limit for each statement.
async fn is_tuned(conn: &mut AsyncPgConnection) -> bool {
    let settings = (setting("plan_cache_mode"), setting("statement_timeout"));
    let settings: (String, String) = diesel::select(settings).get_result(conn).await.unwrap();
    settings == ("force_generic_plan".to_owned(), "9s".to_owned())
}

diesel::define_sql_function! {
    #[sql_name = "current_setting"]
    fn setting(name: Text) -> Text;
}

#[tokio::test]
async fn only_the_workers_own_statements_are_planned_its_way() {
    let (mut admin, name, _) = database().await;
    let storage = PgStorage::new(&url(&name), 1, Stopwatch::Runs).unwrap();
    assert!(is_tuned(&mut storage.connection().await.unwrap()).await);
    assert!(!is_tuned(&mut storage.handlers.get().await.unwrap()).await, "handlers are the application's");
    // Without the setting, the planner would start two parallel workers for these two empty tables.
    let two = diesel::sql_query(
        "select name from jobs.queue where paused union all select '' from jobs.installation where frozen_at is not null",
    );
    let mut conn = storage.connection().await.unwrap();
    let plan = plan(&mut conn, "costs off", two).await;
    assert!(!plan.iter().any(|line| line.contains("Gather")), "{plan:?}");
    drop((conn, storage));
    admin.batch_execute(&format!("drop database {name} with (force)")).await.unwrap();
}

/// Passes everything on, but refuses start-up options as PgBouncer does. Returns its port.
async fn pooler(server: String) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        loop {
            let (mut client, _) = listener.accept().await.unwrap();
            let length = client.read_u32().await.unwrap();
            let mut start = vec![0; length as usize - 4];
            client.read_exact(&mut start).await.unwrap();
            if start.windows(8).any(|word| word == b"options\0") {
                let text = b"SFATAL\0C08P01\0Munsupported startup parameter: options\0\0";
                let length = u32::try_from(text.len() + 4).unwrap().to_be_bytes();
                client.write_all(&[b"E", length.as_slice(), text].concat()).await.unwrap();
                continue;
            }
            let mut server = TcpStream::connect(&server).await.unwrap();
            server.write_all(&[&length.to_be_bytes(), start.as_slice()].concat()).await.unwrap();
            tokio::spawn(async move { tokio::io::copy_bidirectional(&mut client, &mut server).await });
        }
    });
    port
}

#[tokio::test]
async fn a_pooler_that_refuses_the_settings_is_asked_without() {
    let url = std::env::var("JOBS_TEST_DATABASE_URL").expect("JOBS_TEST_DATABASE_URL: run `cargo xtask test`");
    let (before, rest) = url.split_once('@').unwrap();
    let (server, name) = rest.split_once('/').unwrap();
    let port = pooler(server.to_owned()).await;
    let url = format!("{before}@127.0.0.1:{port}/{}?sslmode=disable", name.split('?').next().unwrap());
    let storage = PgStorage::new(&url, 1, Stopwatch::Runs).unwrap();
    assert!(!is_tuned(&mut storage.connection().await.unwrap()).await);
    // Options in the URL itself are kept.
    let storage = PgStorage::new(&format!("{url}&options=-c%20jit%3Doff"), 1, Stopwatch::Runs).unwrap();
    let refused = storage.connection().await.err().unwrap().to_string();
    assert!(refused.contains("unsupported startup parameter"), "{refused}");
}

#[tokio::test]
async fn a_claim_waits_for_no_row_lock() {
    let (mut admin, name, storage) = database().await;
    let worker = WorkerId::generate();
    let info = WorkerInfo::new(worker, Duration::from_secs(3600));
    storage.register(&info).await.unwrap();
    let claim = Claim::new(worker, vec![Wanted::new("default", 2)], ["k".to_owned()]);
    let mut conn = storage.connector.connect().await.unwrap();
    for how in ["key share", "share", "no key update", "update"] {
        crate::enqueue_all(&mut conn, vec![NewJob::raw("k", "{}"); 2]).await.unwrap();
        let mut holder = storage.connector.connect().await.unwrap();
        let hold = format!("begin; select from jobs.ready order by id limit 1 for {how}");
        holder.batch_execute(&hold).await.unwrap();
        // A claim that waited for the lock would end with an error.
        assert_eq!(storage.claim(&claim).await.unwrap().len(), 1, "the other one, for {how}");
        holder.batch_execute("rollback").await.unwrap();
        storage.forget_levels(worker);
        assert_eq!(storage.claim(&claim).await.unwrap().len(), 1, "what was held, after {how}");
    }
    drop((conn, storage));
    admin.batch_execute(&format!("drop database {name} with (force)")).await.unwrap();
}

#[tokio::test]
async fn four_claim_at_once_and_one_that_bypasses_the_limit() {
    let (mut admin, name, storage) = database().await;
    let worker = WorkerId::generate();
    let info = WorkerInfo::new(worker, Duration::from_secs(3600));
    storage.register(&info).await.unwrap();
    let claim = Claim::new(worker, vec![Wanted::new("default", 1)], ["k".to_owned()]);
    let bypassing = Claim { bypass_limit: true, ..claim.clone() };
    let mut conn = storage.connector.connect().await.unwrap();
    crate::enqueue_all(&mut conn, vec![NewJob::raw("k", "{}"); 5]).await.unwrap();

    // Other sessions that take a place of the claim limit each, and keep it.
    let mut others = Vec::new();
    for place in super::queries::claim_limit::places("default") {
        assert_eq!(storage.claim(&claim).await.unwrap().len(), 1, "the place {place} is free");
        let mut other = storage.connector.connect().await.unwrap();
        other.batch_execute(&format!("begin; select pg_advisory_xact_lock(1785684595, {place})")).await.unwrap();
        others.push(other);
    }
    assert_eq!(storage.claim(&claim).await.unwrap().len(), 0, "no place is free");
    assert_eq!(storage.claim(&bypassing).await.unwrap().len(), 1);
    assert_eq!(
        storage.next_due(&claim, Waiting::Available { within: Duration::MAX }).await.unwrap(),
        Some(Duration::ZERO),
        "who is refused is to come again"
    );
    assert_eq!(storage.next_due(&bypassing, Waiting::Available { within: Duration::MAX }).await.unwrap(), None);

    crate::enqueue_all(&mut conn, vec![NewJob::raw("k", "{}")]).await.unwrap();
    others[2].batch_execute("rollback").await.unwrap();
    assert_eq!(storage.claim(&claim).await.unwrap().len(), 1, "one place is free again");
    assert_eq!(
        storage.next_due(&claim, Waiting::Available { within: Duration::MAX }).await.unwrap(),
        None,
        "nothing else is due"
    );
    drop((storage, conn, others));
    admin.batch_execute(&format!("drop database {name} with (force)")).await.unwrap();
}
