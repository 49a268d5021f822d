//! A layer may end the attempt before its handler, and the attempt ends although a layer does not.

use std::time::{Duration, Instant};

use diesel_jobs::JobState;
use diesel_jobs::handler::FailureKind;
use diesel_jobs::operator::Operated;
use support::Db;

use super::jobs::{Then, forms};
use super::{Does, expect_all, failure_of, start, start_with};

const BEFORE: [&str; 2] = ["outer before", "inner before"];

async fn an_error_a_panic_or_a_missing_value_of_before_fails_the_attempt_without_its_handler(db: Db) {
    let refusals = [
        (Does::Refuse, FailureKind::Error, "not today"),
        (Does::PanicBefore, FailureKind::Panic, "no patience"),
        (Does::ForgetNames, FailureKind::Error, "Names` in `provides`, but its `before` did not add it"),
    ];
    for (does, kind, message) in refusals {
        let (worker, mut events) = start(&db, does);
        for form in forms(&db) {
            let id = db.enqueue((form.job)(Then::Complete)).await;
            expect_all(&mut events, &form, &BEFORE).await;
            expect_all(&mut events, &form, &[&format!("outer error {kind}: ")]).await;
            let said = failure_of(&db, id, kind).await;
            assert!(said.contains(message), "{said}");
            assert!(does == Does::Refuse || said.contains("layers::Telling`"), "{said}");
        }
        worker.stop().await;
        assert_eq!(events.rest().len(), 0);
    }
}

async fn a_snooze_of_before_consumes_no_attempt(db: Db) {
    let (worker, mut events) = start(&db, Does::Snooze);
    for form in forms(&db) {
        let id = db.enqueue((form.job)(Then::Complete)).await;
        expect_all(&mut events, &form, &BEFORE).await;
        expect_all(&mut events, &form, &["outer after Snooze(3600s) of the worker's outer"]).await;
        let job = db.await_state(id, JobState::Scheduled).await;
        assert_eq!(job.attempt, 0, "{}", form.name);
    }
    worker.stop().await;
    assert_eq!(events.rest().len(), 0);
}

async fn the_first_layer_ends_the_attempt_alone(db: Db) {
    let (worker, mut events) = start_with(&db, Does::Refuse, Does::Nothing, |worker| worker);
    for form in forms(&db) {
        let id = db.enqueue((form.job)(Then::Complete)).await;
        expect_all(&mut events, &form, &["outer before"]).await;
        failure_of(&db, id, FailureKind::Error).await;
    }
    worker.stop().await;
    assert_eq!(events.rest().len(), 0);
}

async fn a_hanging_before_ends_at_the_time_limit(db: Db) {
    for form in forms(&db) {
        let (worker, mut events) =
            start_with(&db, Does::Nothing, Does::HangBefore, |worker| worker.timeout(Duration::from_secs(3600)));
        let id = db.enqueue((form.job)(Then::Complete)).await;
        expect_all(&mut events, &form, &BEFORE).await;
        worker.handle().end_time_limits();
        expect_all(&mut events, &form, &["outer error timeout: took longer"]).await;
        failure_of(&db, id, FailureKind::Timeout).await;
        worker.stop().await;
        assert_eq!(events.rest().len(), 0);
    }
}

async fn a_hanging_before_ends_with_the_lease_or_the_grace_period_and_nothing_is_called(db: Db) {
    for form in forms(&db).into_iter().filter(|form| !form.has_timeout) {
        let (worker, mut events) =
            start_with(&db, Does::Nothing, Does::HangBefore, |worker| worker.grace_period(Duration::from_secs(3600)));
        let cancelled = db.enqueue((form.job)(Then::Complete)).await;
        expect_all(&mut events, &form, &BEFORE).await;
        assert!(matches!(db.database().operator.cancel(cancelled).await.unwrap(), Operated::Done));
        // The only slot is free again.
        let released = db.enqueue((form.job)(Then::Complete)).await;
        expect_all(&mut events, &form, &BEFORE).await;
        worker.handle().shutdown_now();
        worker.ended().await;
        let job = db.record(released).await;
        assert_eq!((job.state, job.attempt), (JobState::Available, 0), "{}", form.name);
        assert_eq!(db.record(cancelled).await.state, JobState::Cancelled);
        assert_eq!(events.rest().len(), 0, "{}", form.name);
        assert!(matches!(db.database().operator.cancel(released).await.unwrap(), Operated::Done));
    }
}

async fn a_panic_after_the_handler_changes_nothing(db: Db) {
    let (worker, mut events) = start(&db, Does::PanicAfterwards);
    for form in forms(&db) {
        let id = db.enqueue((form.job)(Then::Complete)).await;
        expect_all(&mut events, &form, &BEFORE).await;
        expect_all(&mut events, &form, &["runs", "inner after", "outer after"]).await;
        db.await_state(id, JobState::Completed).await;
        let id = db.enqueue((form.job)(Then::Fail)).await;
        expect_all(&mut events, &form, &BEFORE).await;
        expect_all(&mut events, &form, &["runs", "inner error", "outer error"]).await;
        assert_eq!(failure_of(&db, id, FailureKind::Error).await, "changed my mind");
    }
    worker.stop().await;
}

async fn a_hanging_after_is_given_up_at_the_end_of_the_grace_period(db: Db) {
    for form in forms(&db) {
        let (worker, mut events) = start(&db, Does::HangAfterwards);
        let id = db.enqueue((form.job)(Then::Complete)).await;
        expect_all(&mut events, &form, &BEFORE).await;
        expect_all(&mut events, &form, &["runs", "inner after"]).await;
        worker.handle().shutdown_now();
        worker.ended().await;
        assert_eq!(db.record(id).await.state, JobState::Completed, "{}", form.name);
    }
}

async fn a_hanging_after_is_given_up_after_ten_seconds(db: Db) {
    let begun = Instant::now();
    let (worker, mut events) = start(&db, Does::HangAfterwards);
    let form = forms(&db).remove(0);
    let id = db.enqueue((form.job)(Then::Complete)).await;
    expect_all(&mut events, &form, &BEFORE).await;
    expect_all(&mut events, &form, &["runs", "inner after"]).await;
    expect_all(&mut events, &form, &["outer after"]).await;
    assert!(begun.elapsed() > Duration::from_secs(10), "{:?}", begun.elapsed());
    db.await_state(id, JobState::Completed).await;
    worker.stop().await;
}

support::on_each_database! {
    an_error_a_panic_or_a_missing_value_of_before_fails_the_attempt_without_its_handler,
    a_snooze_of_before_consumes_no_attempt,
    the_first_layer_ends_the_attempt_alone,
    a_hanging_before_ends_at_the_time_limit,
    a_hanging_before_ends_with_the_lease_or_the_grace_period_and_nothing_is_called,
    a_panic_after_the_handler_changes_nothing,
    a_hanging_after_is_given_up_at_the_end_of_the_grace_period,
}

mod ten_seconds {
    support::on_sqlite! { a_hanging_after_is_given_up_after_ten_seconds }
    use super::a_hanging_after_is_given_up_after_ten_seconds;
}
