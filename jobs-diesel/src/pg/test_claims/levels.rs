//! Claims from several priorities.

use diesel_jobs_core::storage::Storage as _;

use super::World;
use crate::pg::tests::run;

#[tokio::test]
async fn a_claim_of_few_passes_over_no_higher_priority() {
    let mut world = World::new(1, &["default"]).await;
    run(&world.storage, &mut world.conn, &world.claim, 1).await;
    for _ in 0..2 {
        assert_eq!(world.storage.claim(&world.claim).await.unwrap().len(), 0);
    }
    assert!(world.storage.levels(world.claim.worker, |levels| levels.expects_few));
    world
        .sql("insert into jobs.ready (kind, args, priority) values ('k', '{}', 0), ('k', '{}', -5), ('k', '{}', 5)")
        .await;
    for priority in [5, 0, -5] {
        let claimed = world.storage.claim(&world.claim).await.unwrap();
        assert_eq!(claimed.iter().map(|job| job.priority).collect::<Vec<_>>(), [priority]);
    }
    world.end().await;
}

/// There are more levels than a claim reads.
#[tokio::test]
async fn a_backlog_at_many_priorities_is_claimed_to_its_end() {
    let mut world = World::new(25, &["default"]).await;
    let backlog = "insert into jobs.ready (kind, args, run_at, priority)
        select 'k', '{}', now() - '1 hour'::interval, priority::smallint from generate_series(-100, 100) priority, generate_series(1, 10)";
    world.sql(backlog).await;
    let first = world.storage.claim(&world.claim).await.unwrap();
    assert!(first.iter().all(|job| job.priority >= 97), "the highest come first");
    assert_eq!(first.len() + world.claim_all(2010 - first.len()).await, 2010);
    world.end().await;
}
