//! A claim never returns more jobs than were asked for, whatever plan the server makes for it. Without this limit,
//! queues on PostgreSQL have run jobs for which there was no slot.

use std::fmt::Write as _;
use std::time::Duration;

use diesel_async::{AsyncConnection as _, AsyncPgConnection, RunQueryDsl as _, SimpleAsyncConnection as _};
use diesel_jobs_core::storage::{Claim, Storage as _, Wanted, WorkerInfo};
use diesel_jobs_core::{NewJob, WorkerId};
use futures_util::future::join_all;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

use super::queries::claim::{ClaimQuery, ClaimedRow};
use super::tests::{database, url};

const CLAIMERS: usize = 8;
const ROUNDS: usize = 250;
const SWITCHES: [&str; 13] = [
    "enable_seqscan",
    "enable_indexscan",
    "enable_indexonlyscan",
    "enable_bitmapscan",
    "enable_tidscan",
    "enable_hashjoin",
    "enable_mergejoin",
    "enable_nestloop",
    "enable_sort",
    "enable_incremental_sort",
    "enable_material",
    "enable_memoize",
    "enable_hashagg",
];

/// A random setting of the planner, or random statistics of the tables.
fn random_planner_settings(rng: &mut StdRng) -> String {
    let mut sql = String::new();
    for switch in SWITCHES {
        let _ = write!(sql, "set {switch} = {}; ", if rng.random() { "on" } else { "off" });
    }
    let mode = ["auto", "force_custom_plan", "force_generic_plan"][rng.random_range(0..3)];
    let pages = 10_f64.powi(rng.random_range(-3..4));
    let tuples = rng.random_range(0..7);
    let _ = write!(
        sql,
        "set plan_cache_mode = {mode}; set random_page_cost = {pages}; set jit = off;
         update pg_class set reltuples = 10 ^ {tuples}, relpages = 10 ^ {tuples} / 50 where oid = 'jobs.ready'::regclass"
    );
    sql
}

#[tokio::test]
async fn no_claim_brings_more_than_it_asked_for() {
    let (mut admin, name, storage) = database().await;
    let worker = WorkerId::generate();
    let info = WorkerInfo::new(worker, Duration::from_secs(600));
    storage.register(&info).await.unwrap();
    let mut claimers = Vec::new();
    for _ in 0..CLAIMERS {
        claimers.push(AsyncPgConnection::establish(&url(&name)).await.unwrap());
    }
    let mut rng = StdRng::seed_from_u64(7);
    let mut claimed = 0;
    for _ in 0..ROUNDS {
        crate::enqueue_all(&mut claimers[0], vec![NewJob::raw("k", "{}"); 60]).await.unwrap();
        // One after another, because in parallel they would wait for each other's row in the catalogue.
        for conn in &mut claimers {
            conn.batch_execute(&random_planner_settings(&mut rng)).await.unwrap();
        }
        let slots = rng.random_range(0..4);
        let prefetch = rng.random_range(0..4);
        let wanted = vec![Wanted { queue: "default".into(), slots, prefetch }];
        let claim = Claim { bypass_limit: true, ..Claim::new(worker, wanted, ["k".to_owned()]) };
        let plan = storage.levels(worker, |levels| levels.plan_of_all(&claim, std::time::Instant::now()));
        let rows = join_all(claimers.iter_mut().map(|conn| async {
            let rows: Vec<ClaimedRow> = ClaimQuery::new(&claim, &plan).load(conn).await.unwrap();
            rows.len()
        }));
        for rows in rows.await {
            assert!(rows <= slots + prefetch, "{rows} rows, and {slots} + {prefetch} were wanted");
            claimed += rows;
        }
    }
    assert!(claimed > ROUNDS * CLAIMERS, "hardly anything was claimed: {claimed}");
    drop((claimers, storage));
    admin.batch_execute(&format!("drop database {name} with (force)")).await.unwrap();
}
