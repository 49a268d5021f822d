//! What is stored of a failure beside its text: its fingerprint, the place of a panic, the backtrace, and who cancelled
//! the job.

use diesel_jobs_core::storage::{Action, CANCELLED, CRASH_FINGERPRINT, Cancelled, cancel_fingerprint};
use diesel_jobs_core::{Failure, FailureKind, Finish, Keep, Transition, fingerprint};

use crate::bench::{
    DONE, HOUR, MINUTE, POLICY, StorageExt as _, cancel, claim, claimed, enqueue, failure, failures, finish, job,
    later, mortal, rescue, retry_in, worker,
};
use crate::fixture::Fixture;

fn panic(number: u32) -> Failure {
    Failure {
        place: Some("src/mail.rs:12:5".to_owned()),
        backtrace: Some("0: mail::send\n   at src/mail.rs:12:5".to_owned()),
        ..Failure::new(FailureKind::Panic, &format!("panicked at src/mail.rs:12:5: no account {number}"))
    }
}

pub(crate) async fn a_failure_is_stored_with_its_fingerprint_place_and_backtrace<F: Fixture>(f: F) {
    let (db, me) = (f.database(), worker(f.database()).await);
    let retry = |number| Transition::Retry { delay: MINUTE, failure: panic(number) };
    let discard = |number| Transition::Discard { failure: panic(number), keep: Keep::For(HOUR) };
    for transition in [retry(1), discard(2)] {
        let job = claimed(&f, me, job()).await;
        assert!(finish(db, &job, transition).await);
        let failures = failures(db, job.lease.job).await;
        let [failure] = &failures[..] else { panic!("{failures:?}") };
        assert_eq!(failure.fingerprint, Some(panic(3).fingerprint), "the numbers do not count");
        assert_eq!(failure.place, panic(3).place);
        assert_eq!(failure.backtrace, panic(3).backtrace);
        assert_eq!(failure.actor, None);
    }
}

pub(crate) async fn in_a_batch_each_failure_goes_to_its_job<F: Fixture>(f: F) {
    let (db, me) = (f.database(), worker(f.database()).await);
    for _ in 0..4 {
        enqueue(&f, job()).await;
    }
    let jobs = claim(db, me, 4).await;
    let plain = Transition::Retry { delay: MINUTE, failure: failure("no mail") };
    let transitions = [DONE, Transition::Retry { delay: MINUTE, failure: panic(1) }, plain, cancel()];
    let batch = jobs.iter().zip(transitions).map(|(job, transition)| Finish::new(job, transition));
    assert_eq!(db.storage.finish_all(&batch.collect::<Vec<_>>()).await.unwrap().len(), 4);
    let mut stored = Vec::new();
    for job in &jobs {
        let found = failures(db, job.lease.job).await;
        stored.push(found.into_iter().map(|one| (one.fingerprint, one.place.is_some())).next());
    }
    let reason = fingerprint("cancelled", "not wanted any more");
    let expected = [
        None,
        Some((Some(panic(1).fingerprint), true)),
        Some((Some(fingerprint("error", "no mail")), false)),
        Some((Some(reason), false)),
    ];
    assert_eq!(stored, expected);
}

pub(crate) async fn all_crashes_and_all_cancels_have_the_same_fingerprint<F: Fixture>(f: F) {
    let db = f.database();
    let crashed = claimed(&f, mortal(db).await, job()).await.lease.job;
    rescue(db, POLICY).await;
    assert_eq!(failures(db, crashed).await[0].fingerprint, Some(CRASH_FINGERPRINT));
    let cancelled = enqueue(&f, job()).await;
    db.operator.cancel(cancelled).await.unwrap();
    assert_eq!(failures(db, cancelled).await[0].fingerprint, Some(cancel_fingerprint(CANCELLED)));
}

pub(crate) async fn a_worker_can_ask_who_cancelled_its_jobs<F: Fixture>(f: F) {
    let (db, me) = (f.database(), worker(f.database()).await);
    let named = claimed(&f, me, job()).await;
    let unnamed = claimed(&f, me, job()).await;
    let running = claimed(&f, me, job()).await;
    let failed = claimed(&f, me, job()).await;
    let gone = claimed(&f, me, job()).await;
    finish(db, &failed, Transition::Discard { failure: failure("no"), keep: Keep::For(HOUR) }).await;
    finish(db, &gone, Transition::Complete(Keep::Nothing)).await;
    for job in [&named, &unnamed] {
        db.operator.cancel(job.lease.job).await.unwrap();
    }
    let errors = F::table("job_error");
    let said = format!("update {errors} set actor = 'ana' where job_id = {}", named.lease.job.0);
    let unsaid = format!("update {errors} set actor = null where job_id = {}", unnamed.lease.job.0);
    f.client().await.execute(&format!("{said}; {unsaid}")).await.unwrap();
    let asked = [&named, &unnamed, &running, &failed, &gone].map(|job| job.lease.job);
    let mut cancelled = db.storage.cancelled(&asked).await.unwrap();
    cancelled.sort_by_key(|one| one.job);
    let ana = Cancelled { job: named.lease.job, by: Some("ana".to_owned()) };
    assert_eq!(cancelled, [ana, Cancelled { job: unnamed.lease.job, by: None }]);
}

pub(crate) async fn a_cancelled_job_is_a_failure_only_if_it_failed_before<F: Fixture>(f: F) {
    let db = f.database();
    let me = worker(db).await;
    let (never, discarded) = (enqueue(&f, later(HOUR)).await, enqueue(&f, later(HOUR)).await);
    let failed = claimed(&f, me, job()).await;
    assert!(finish(db, &failed, retry_in(HOUR)).await);
    let by_itself = claimed(&f, me, job()).await;
    assert!(finish(db, &by_itself, cancel()).await);
    let operator = &db.operator;
    operator.act(&Action::Cancel, &[never, failed.lease.job], "ann").await.unwrap();
    operator.act(&Action::Discard, &[discarded], "ann").await.unwrap();
    let found = operator.failures(10).await.unwrap();
    assert_eq!((found.examined, found.is_complete, found.groups.len()), (1, true, 1), "{found:?}");
    let group = &found.groups[0];
    assert_eq!((group.sample, group.jobs, group.retrying, group.discarded), (failed.lease.job, 1, 0, 0));
    assert_eq!(group.message, "it did not work");
}
