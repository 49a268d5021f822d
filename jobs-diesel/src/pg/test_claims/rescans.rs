//! Rescans find the jobs that came below the floors, and are left out while they would find nothing.

use std::time::Duration;

use diesel_async::{RunQueryDsl as _, SimpleAsyncConnection as _};
use diesel_jobs_core::storage::{Claim, PassOn, RescanReason, Rescanned, Storage as _, Waiting};
use diesel_jobs_core::{Finish, NewJob, Transition};

use super::World;

#[tokio::test]
async fn a_rescan_finds_what_claims_pass_by_and_says_when_it_could_not_look() {
    let mut world = World::new(5, &["default"]).await;
    crate::enqueue_all(&mut world.conn, vec![NewJob::raw("k", "{}")]).await.unwrap();
    let held = world.storage.claim(&world.claim).await.unwrap().remove(0);
    world.a_while().await;
    let (storage, claim) = (world.storage.clone(), world.claim.clone());
    assert_eq!(storage.rescan(&claim, RescanReason::Requested).await.unwrap(), Rescanned::Nothing);
    storage.finish(&[Finish::new(&held, Transition::Release)], PassOn::Nothing).await.unwrap();
    assert_eq!(storage.claim(&claim).await.unwrap().len(), 0, "it is back below the floor");
    assert_eq!(storage.next_due(&claim, Waiting::Available { within: Duration::MAX }).await.unwrap(), None);

    world.sql("begin; select pg_advisory_xact_lock(1785684595, 5)").await;
    assert_eq!(storage.rescan(&claim, RescanReason::Requested).await.unwrap(), Rescanned::Refused);
    let bypassing = Claim { bypass_limit: true, ..claim.clone() };
    assert_eq!(
        storage.rescan(&bypassing, RescanReason::Requested).await.unwrap(),
        Rescanned::Found,
        "a claim that bypasses the limit rescans nevertheless"
    );
    world.sql("rollback").await;
    assert_eq!(
        storage.rescan(&claim, RescanReason::Requested).await.unwrap(),
        Rescanned::Nothing,
        "claims begin there now"
    );
    assert_eq!(storage.claim(&claim).await.unwrap().len(), 1, "it is seen now");
    drop(storage);
    world.end().await;
}

/// Servers publish the counts of a session up to ten seconds late, from version 15 on.
#[tokio::test]
async fn an_expensive_rescan_is_left_out_until_the_server_counts_a_change() {
    let mut world = World::new(5, &["default"]).await;
    world.a_while().await;
    world.changes_are_counted().await;
    assert_eq!(world.rescan().await, Rescanned::Nothing);
    let before = world.last_rescan_took_long().await;
    // Before version 15, a session may keep its counts until its next statement, so nothing is left out there.
    let counts = "(current_setting('server_version_num')::integer >= 150000)";
    let counts = diesel::select(diesel::dsl::sql::<diesel::sql_types::Bool>(counts));
    let counts: bool = counts.get_result(&mut world.conn).await.unwrap();
    assert_eq!(before.is_some_and(|changes| changes > 0), counts, "{before:?}");
    // A change that is not counted shows that the rescan is left out.
    let straggler = |hours: u8| {
        format!(
            "insert into jobs.ready (kind, args, run_at) values ('k', '{{}}', now() - {hours} * '1 hour'::interval)"
        )
    };
    world.sql("set track_counts = off").await;
    world.sql(&straggler(1)).await;
    if !counts {
        assert_eq!(world.rescan().await, Rescanned::Found);
        return world.end().await;
    }
    assert_eq!(world.rescan().await, Rescanned::Nothing);
    let rescanned = world.storage.rescan(&world.claim, RescanReason::Requested).await.unwrap();
    assert_eq!(rescanned, Rescanned::Found, "a requested rescan is never skipped");

    world.sql("set track_counts = on").await;
    world.last_rescan_took_long().await;
    world.sql(&straggler(2)).await;
    world.changes_are_counted().await;
    assert_eq!(world.rescan().await, Rescanned::Found);
    assert_eq!(world.storage.claim(&world.claim).await.unwrap().len(), 2);
    world.end().await;
}

#[tokio::test]
async fn what_commits_late_is_found_by_a_rescan() {
    let mut world = World::new(5, &["default"]).await;
    let mut late = world.storage.connector.connect().await.unwrap();
    late.batch_execute("begin").await.unwrap();
    crate::enqueue_all(&mut late, vec![NewJob::raw("k", "{}"); 3]).await.unwrap();
    world.a_while().await;
    late.batch_execute("commit").await.unwrap();
    assert_eq!(world.storage.claim(&world.claim).await.unwrap().len(), 0, "it is below the floor");
    assert_eq!(world.storage.rescan(&world.claim, RescanReason::Requested).await.unwrap(), Rescanned::Found);
    assert_eq!(world.storage.claim(&world.claim).await.unwrap().len(), 3, "all of them, not the first only");
    drop(late);
    world.end().await;
}
