//! Schedules: declared, changed, ticked once.

use chrono::TimeDelta;
use diesel_jobs_core::storage::{DeclaredSchedule, JobFilter, StoredSchedule, WorkerInfo};
use diesel_jobs_core::{CatchUp, WorkerId};
use diesel_jobs_storage::Database;

use crate::bench::*;
use crate::examining::{none, one};
use crate::fixture::Fixture;

pub(crate) fn declared(name: &str) -> DeclaredSchedule {
    DeclaredSchedule {
        name: name.to_owned(),
        expression: "0 0 2 * * *".to_owned(),
        timezone: "Europe/Paris".to_owned(),
        catch_up: CatchUp::Last,
    }
}

pub(crate) async fn stored(db: &Database, name: &str) -> Option<StoredSchedule> {
    db.storage.schedules(&[]).await.unwrap().all.into_iter().find(|schedule| schedule.name == name)
}

pub(crate) async fn declare(db: &Database, schedules: &[DeclaredSchedule]) {
    db.storage.schedules(schedules).await.unwrap();
}

pub(crate) async fn a_new_schedule_starts_now<F: Fixture>(f: F) {
    let db = f.database();
    declare(db, &[declared("nightly")]).await;
    let schedule = stored(db, "nightly").await.unwrap();
    assert_eq!(
        (&*schedule.kind, &*schedule.expression, &*schedule.timezone),
        ("nightly", "0 0 2 * * *", "Europe/Paris")
    );
    assert_eq!((schedule.catch_up, schedule.paused), (CatchUp::Last, false));
    assert!(close(schedule.last_tick, now(db).await));
}

pub(crate) async fn an_unchanged_schedule_keeps_its_last_tick_and_a_changed_one_goes_on_from_now<F: Fixture>(f: F) {
    let db = f.database();
    declare(db, &[declared("nightly")]).await;
    let schedule = stored(db, "nightly").await.unwrap();
    let past = schedule.last_tick - TimeDelta::days(3);
    assert!(db.storage.tick(&schedule, past, &[]).await.unwrap());
    declare(db, &[declared("nightly")]).await;
    assert_eq!(stored(db, "nightly").await.unwrap().last_tick, past);
    // The catch-up rule may change without the loss of missed ticks.
    declare(db, &[DeclaredSchedule { catch_up: CatchUp::All, ..declared("nightly") }]).await;
    let schedule = stored(db, "nightly").await.unwrap();
    assert_eq!((schedule.last_tick, schedule.catch_up), (past, CatchUp::All));
    for changed in [
        DeclaredSchedule { expression: "0 0 3 * * *".to_owned(), ..declared("nightly") },
        DeclaredSchedule { timezone: "UTC".to_owned(), ..declared("nightly") },
    ] {
        declare(db, &[declared("nightly")]).await;
        let schedule = stored(db, "nightly").await.unwrap();
        assert!(db.storage.tick(&schedule, past, &[]).await.unwrap());
        declare(db, std::slice::from_ref(&changed)).await;
        let schedule = stored(db, "nightly").await.unwrap();
        assert_eq!((schedule.expression, schedule.timezone), (changed.expression, changed.timezone));
        assert!(close(schedule.last_tick, now(db).await));
    }
}

pub(crate) async fn schedules_that_are_not_declared_stay<F: Fixture>(f: F) {
    let db = f.database();
    declare(db, &[declared("one"), declared("two"), declared("of another program")]).await;
    declare(db, &[declared("two")]).await;
    declare(db, &[]).await;
    let names: Vec<String> =
        db.storage.schedules(&[]).await.unwrap().all.into_iter().map(|schedule| schedule.name).collect();
    assert_eq!(names, ["of another program", "one", "two"]);
}

pub(crate) async fn concurrent_tickers_enqueue_a_tick_once<F: Fixture>(f: F) {
    let db = f.database();
    declare(db, &[declared("a")]).await;
    for round in 0..5 {
        let schedule = stored(db, "a").await.unwrap();
        let tick = schedule.last_tick + TimeDelta::seconds(1);
        let mut tickers = Vec::new();
        for _ in 0..8 {
            let (db, schedule) = (f.again().await, schedule.clone());
            tickers.push(tokio::spawn(async move { db.storage.tick(&schedule, tick, &[job(), job()]).await.unwrap() }));
        }
        let mut winners = 0;
        for ticker in tickers {
            winners += usize::from(ticker.await.unwrap());
        }
        assert_eq!(winners, 1);
        assert_eq!(stored(db, "a").await.unwrap().last_tick, tick);
        let jobs = db.operator.list_all(&JobFilter::default(), 100).await.unwrap();
        assert_eq!(jobs.len(), 2 * (round + 1));
    }
}

pub(crate) async fn a_paused_schedule_does_not_tick<F: Fixture>(f: F) {
    let db = f.database();
    declare(db, &[declared("a")]).await;
    let schedule = stored(db, "a").await.unwrap();
    f.client().await.execute(&format!("update {} set paused = true", F::table("schedule"))).await.unwrap();
    assert!(!db.storage.tick(&schedule, schedule.last_tick + TimeDelta::seconds(1), &[job()]).await.unwrap());
    let stored = stored(db, "a").await.unwrap();
    assert_eq!((stored.paused, stored.last_tick), (true, schedule.last_tick));
    assert_eq!(db.operator.list_all(&JobFilter::default(), 100).await.unwrap().len(), 0);
    // A deploy does not resume a schedule that an operator has paused.
    declare(db, &[declared("a")]).await;
    assert!(crate::scheduling::stored(db, "a").await.unwrap().paused);
}

/// A worker whose program declares the schedule `nightly` at this hour.
async fn worker_declares(db: &Database, hour: u8) -> WorkerId {
    let id = WorkerId::generate();
    let schedules = [("nightly".to_owned(), at_hour(hour))].into();
    db.storage.register(&WorkerInfo { schedules, ..info(id, HOUR) }).await.unwrap();
    id
}

fn at_hour(hour: u8) -> DeclaredSchedule {
    DeclaredSchedule { expression: format!("0 0 {hour} * * *"), ..declared("nightly") }
}

pub(crate) async fn a_declaration_stays_while_a_live_worker_declares_it<F: Fixture>(f: F) {
    let db = f.database();
    let hour = async || stored(db, "nightly").await.unwrap().expression;
    let newer = worker_declares(db, 3).await;
    declare(db, &[at_hour(3)]).await;
    none(db, "schedule_declared_otherwise").await;
    let older = worker_declares(db, 2).await;
    declare(db, &[at_hour(2)]).await;
    assert_eq!(hour().await, "0 0 3 * * *");
    let finding = one(db, "schedule_declared_otherwise").await;
    assert!(
        finding.what.starts_with(
            "schedule `nightly` is `0 0 3 * * *` in Europe/Paris with catch_up last, and the live worker bench:4711"
        ) && finding.what.ends_with("declares `0 0 2 * * *` in Europe/Paris with catch_up last"),
        "{finding:?}"
    );
    // Only the rule for missed ticks differs.
    declare(db, &[DeclaredSchedule { catch_up: CatchUp::All, ..at_hour(3) }]).await;
    assert_eq!(stored(db, "nightly").await.unwrap().catch_up, CatchUp::Last);
    // A worker that drains ticks no more, so it decides no more.
    db.storage.open_heartbeat(newer).await.unwrap().beat(true, HOUR).await.unwrap();
    declare(db, &[at_hour(2)]).await;
    assert_eq!(hour().await, "0 0 2 * * *");
    db.storage.deregister(newer).await.unwrap();
    db.storage.deregister(older).await.unwrap();
    declare(db, &[at_hour(4)]).await;
    assert_eq!(hour().await, "0 0 4 * * *");
}
