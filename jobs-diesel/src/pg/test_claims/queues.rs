//! Claims from many queues, and from queues that take turns.

use std::time::Duration;

use diesel_jobs_core::NewJob;
use diesel_jobs_core::storage::{Claim, Storage as _, Waiting};

use super::{FEW, World};
use crate::pg::queries::claim::{ClaimInTurnsQuery, ClaimQuery};
use crate::pg::queries::poll::PollQuery;
use crate::pg::queries::waiting_queues::WaitingQueuesQuery;
use crate::pg::tests::buffers;

#[tokio::test]
async fn a_claim_from_many_queues_costs_what_the_queues_with_jobs_cost() {
    let names: Vec<String> = (0..1000).map(|queue| format!("tenant_{queue}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut world = World::new(2, &names).await;
    world.storage.claim(&world.claim).await.unwrap();
    let job = |queue: &str| {
        let mut job = NewJob::raw("k", "{}");
        job.queue = queue.to_owned().into();
        job
    };
    crate::enqueue_all(&mut world.conn, vec![job("tenant_7"), job("tenant_990"), job("tenant_990")]).await.unwrap();
    assert_eq!(world.claim_all(3).await, 3);
    crate::enqueue_all(&mut world.conn, names.iter().map(|queue| job(queue)).collect::<Vec<_>>()).await.unwrap();
    assert_eq!(world.claim_all(1000).await, 1000, "every queue has its turn");
    assert_eq!(
        world.storage.next_due(&world.claim, Waiting::Available { within: Duration::MAX }).await.unwrap(),
        None,
        "nothing is left"
    );
    world.end().await;
}

/// As a worker with patterns asks for them, about once a second.
#[tokio::test]
async fn waiting_queues_cost_a_few_entries_each_however_many_jobs_wait() {
    let mut world = World::new(1, &["a"]).await;
    world
        .sql(
            "insert into jobs.ready (kind, args, queue, priority)
             select 'k', '{}', (array['a', 'b', 'c'])[1 + n % 3], n % 5 from generate_series(1, 100000) n",
        )
        .await;
    let available = Waiting::Available { within: Duration::MAX };
    assert_eq!(world.storage.waiting_queues(available).await.unwrap(), ["a", "b", "c"]);
    for statistics in ["select 1", "vacuum analyze jobs.ready"] {
        world.sql(statistics).await;
        let touched = buffers(&mut world.conn, WaitingQueuesQuery).await;
        assert!(touched <= FEW, "{touched} buffers after {statistics}");
    }
    world.end().await;
}

/// It reads one entry for each priority of each queue, until it has found one. None of these jobs is due.
#[tokio::test]
async fn a_poll_looks_for_overdue_jobs_at_the_cost_of_a_few_entries_however_many_wait() {
    let mut world = World::new(1, &["z"]).await;
    world
        .sql(
            "insert into jobs.ready (kind, args, queue, priority, run_at)
             select 'k', '{}', (array['a', 'b', 'c'])[1 + n % 3], n % 5, now() + interval '1 hour' from generate_series(1, 100000) n",
        )
        .await;
    for statistics in ["select 1", "vacuum analyze jobs.ready"] {
        world.sql(statistics).await;
        let plan = world.storage.levels(world.claim.worker, |levels| levels.plan_from_floors(&world.claim));
        let poll = |looks| PollQuery::new(&world.claim, &plan, Duration::from_secs(3)).looking_for_overdue(looks);
        let (without, with) = (buffers(&mut world.conn, poll(false)).await, buffers(&mut world.conn, poll(true)).await);
        // Each of the 15 levels and 3 queues costs a descent of the index.
        assert!(with > without && with <= without + 2 * FEW, "{without} buffers, {with} after {statistics}");
    }
    world.end().await;
}

#[tokio::test]
async fn a_claim_of_queues_in_turns_reads_no_more_queues_than_it_needs() {
    let names: Vec<String> = (0..60).map(|queue| format!("q{queue:02}")).collect();
    let mut world = World::new(10, &names.iter().map(String::as_str).collect::<Vec<_>>()).await;
    world
        .sql("insert into jobs.ready (kind, args, queue) select 'k', '{}', 'q' || lpad((n % 60)::text, 2, '0') from generate_series(0, 5999) n")
        .await;
    world.sql("analyze jobs.ready").await;
    let plan = world.storage.levels(world.claim.worker, |levels| levels.plan_from_floors(&world.claim));
    let all = buffers(&mut world.conn, ClaimQuery::new(&world.claim, &plan)).await;
    let claim = Claim { most: Some(2), ..world.claim.clone() };
    let some = buffers(&mut world.conn, ClaimInTurnsQuery::new(&claim, &plan).unwrap()).await;
    assert!(some * 10 < all, "{some} buffers for 2 jobs, {all} for 600");
    world.end().await;
}
