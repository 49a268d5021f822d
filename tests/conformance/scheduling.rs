//! Schedules: declared, changed, ticked once.

use chrono::TimeDelta;
use diesel_jobs_core::CatchUp;
use diesel_jobs_core::storage::{DeclaredSchedule, JobFilter, StoredSchedule};
use diesel_jobs_storage::Database;

use crate::bench::*;
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
