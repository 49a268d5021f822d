//! What claims on unusual queues cost, in buffers of the server. Scan floors keep claims away from entries that they
//! cannot use.

use std::time::{Duration, Instant};

use diesel_async::SimpleAsyncConnection as _;
use diesel_jobs_core::storage::{Claim, RescanReason, Rescanned, Storage as _, Waiting, Wanted};
use diesel_jobs_core::{NewJob, WorkerId};

use super::{FEW, World, register};
use crate::pg::lag::LONGEST_LAG;
use crate::pg::queries::claim::ClaimQuery;
use crate::pg::tests::{buffers, run};

#[tokio::test]
async fn an_old_snapshot_costs_a_claim_nothing() {
    let mut world = World::new(500, &["default"]).await;
    let mut forgotten = world.storage.connector.connect().await.unwrap();
    forgotten.batch_execute("begin isolation level repeatable read; select count(*) from jobs.ready").await.unwrap();
    for _ in 0..20 {
        run(&world.storage, &mut world.conn, &world.claim, 500).await;
    }
    world.a_while().await;
    let (from_floors, from_bottom) = (world.buffers().await, world.buffers_from_the_bottom().await);
    assert!(from_floors <= FEW, "{from_floors} buffers from the floors");
    assert!(from_bottom > 3 * from_floors, "{from_bottom} buffers from the bottom: the snapshot held nothing back");
    drop(forgotten);
    world.end().await;
}

#[tokio::test]
async fn a_claim_after_a_full_one_does_not_walk_over_what_that_took() {
    let mut world = World::new(500, &["default"]).await;
    let mut forgotten = world.storage.connector.connect().await.unwrap();
    forgotten.batch_execute("begin isolation level repeatable read; select count(*) from jobs.ready").await.unwrap();
    crate::enqueue_all(&mut world.conn, vec![NewJob::raw("k", "{}"); 10_000]).await.unwrap();
    let began = Instant::now();
    for _ in 0..18 {
        assert_eq!(world.storage.claim(&world.claim).await.unwrap().len(), 500);
    }
    // All jobs were enqueued within the lag. The plan is for a time shortly after the last claim from the floor.
    world.claim.wanted = vec![Wanted::new("default", 5)];
    let plan = world.storage.levels(world.claim.worker, |levels| levels.plan(&world.claim, began));
    let going_on = buffers(&mut world.conn, ClaimQuery::new(&world.claim, &plan)).await;
    let from_bottom = world.buffers_from_the_bottom().await;
    assert!(from_bottom > 2 * going_on, "{going_on} buffers where the last left off, {from_bottom} from the bottom");
    drop(forgotten);
    world.end().await;
}

#[tokio::test]
async fn a_transaction_that_has_written_and_stays_open_costs_a_claim_nothing() {
    let mut world = World::new(500, &["default"]).await;
    let mut writer = world.storage.connector.connect().await.unwrap();
    writer
        .batch_execute("create table public.import (n integer); begin; insert into public.import values (1)")
        .await
        .unwrap();
    for _ in 0..20 {
        run(&world.storage, &mut world.conn, &world.claim, 500).await;
    }
    world.a_while().await;
    let from_floors = world.buffers().await;
    assert!(from_floors <= FEW, "{from_floors} buffers from the floors");
    drop(writer);
    world.end().await;
}

#[tokio::test]
async fn jobs_of_an_unknown_kind_cost_a_claim_nothing_at_any_priority() {
    let mut world = World::new(5, &["default"]).await;
    let unknown = "insert into jobs.ready (kind, priority, args)
        select 'of_a_newer_program', p, '{}' from generate_series(1, 4000), unnest('{7, 0, -7}'::smallint[]) p";
    world.sql(unknown).await;
    // While the worker is idle, jobs of an unknown kind cost nothing.
    world.storage.rescan(&world.claim, RescanReason::Requested).await.unwrap();
    world.an_idle_while().await;
    let idle = world.buffers().await;
    assert!(idle <= FEW, "{idle} buffers");
    // Nor do they while the worker runs jobs and more of them come.
    world.sql(unknown).await;
    world.a_while().await;
    let busy = world.buffers().await;
    assert!(busy <= FEW, "{busy} buffers");
    // A worker that starts later than the lag finds its own jobs behind them.
    crate::enqueue_all(&mut world.conn, vec![NewJob::raw("k", "{}"); 3]).await.unwrap();
    // A longer pause finds them as well.
    tokio::time::sleep(LONGEST_LAG + Duration::from_secs(1)).await;
    let newcomer = Claim { worker: WorkerId::generate(), ..world.claim.clone() };
    register(&world.storage, newcomer.worker).await;
    world.has_usual_lag(newcomer.worker);
    assert_eq!(world.storage.claim(&newcomer).await.unwrap().len(), 3);
    world.end().await;
}

#[tokio::test]
async fn jobs_that_are_not_committed_cost_a_claim_nothing() {
    let mut world = World::new(5, &["default"]).await;
    let mut bulk = world.storage.connector.connect().await.unwrap();
    bulk.batch_execute("begin; insert into jobs.ready (kind, args) select 'k', '{}' from generate_series(1, 20000)")
        .await
        .unwrap();
    world.a_while().await;
    let meanwhile = world.buffers().await;
    assert!(meanwhile <= FEW, "{meanwhile} buffers");
    bulk.batch_execute("commit").await.unwrap();
    assert_eq!(world.storage.rescan(&world.claim, RescanReason::Requested).await.unwrap(), Rescanned::Found);
    for _ in 0..10 {
        assert_eq!(world.storage.claim(&world.claim).await.unwrap().len(), 5, "one claim after the other finds them");
    }
    drop(bulk);
    world.end().await;
}

#[tokio::test]
async fn a_clock_that_was_set_back_leaves_no_floor_ahead() {
    let mut world = World::new(5, &["default"]).await;
    world.a_while().await;
    // Makes the worker believe that the clock was an hour later.
    let ahead = chrono::Utc::now() + Duration::from_secs(3600);
    world.storage.levels(world.claim.worker, |levels| {
        let plan = levels.plan_from_floors(&world.claim);
        levels.nothing_due(&world.claim, &plan, ahead, Vec::new());
    });
    crate::enqueue_all(&mut world.conn, vec![NewJob::raw("k", "{}")]).await.unwrap();
    assert_eq!(world.storage.claim(&world.claim).await.unwrap().len(), 0);
    world.storage.next_due(&world.claim, Waiting::Available { within: Duration::from_secs(3) }).await.unwrap();
    assert_eq!(world.storage.claim(&world.claim).await.unwrap().len(), 1, "the step was noticed");
    world.end().await;
}
