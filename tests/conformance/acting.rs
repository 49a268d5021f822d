//! What operators do to jobs: the actions on ids, their entries in the audit, and operations on all jobs that match.

use chrono::{DateTime, SubsecRound as _, TimeDelta, Utc};
use diesel_jobs_core::storage::{Action, Chore, JobFilter, Maintained, Operated, OperationId, STEP, preview};
use diesel_jobs_core::{JobId, JobState, StorageError};
use serde_json::json;

use crate::bench::*;
use crate::fixture::Fixture;
use crate::limiting::{admit, check, limited};

fn all_actions() -> [Action; 9] {
    [
        Action::Retry,
        Action::RunNow,
        Action::Reschedule(in_a_day()),
        Action::Cancel,
        Action::Delete,
        Action::Discard,
        Action::Reprioritise(7),
        Action::Move("mail".into()),
        Action::Rerun,
    ]
}

/// A day from now, as exactly as databases store it.
fn in_a_day() -> DateTime<Utc> {
    (Utc::now() + TimeDelta::days(1)).trunc_subsecs(6)
}

/// Returns one job in each state.
pub(crate) async fn every_state<F: Fixture>(f: &F) -> Vec<(JobId, JobState)> {
    let db = f.database();
    let waiting = [JobState::Available, JobState::Scheduled, JobState::Retrying];
    let earlier = JobFilter { states: waiting.to_vec(), ..JobFilter::default() };
    let earlier: Vec<JobId> = db.operator.list_all(&earlier, 100).await.unwrap().iter().map(|job| job.id).collect();
    db.operator.act(&Action::Cancel, &earlier, "the test").await.unwrap();
    let worker = worker(db).await;
    let mut jobs = Vec::new();
    for (transition, end) in [
        (retry_in(HOUR), JobState::Retrying),
        (DONE, JobState::Completed),
        (cancel(), JobState::Cancelled),
        (discard(), JobState::Discarded),
    ] {
        let job = claimed(f, worker, with(|job| job.priority = 1000)).await;
        assert!(finish(db, &job, transition).await);
        jobs.push((job.lease.job, end));
    }
    jobs.push((claimed(f, worker, with(|job| job.priority = 1000)).await.lease.job, JobState::Running));
    jobs.push((enqueue(f, job()).await, JobState::Available));
    jobs.push((enqueue(f, later(HOUR)).await, JobState::Scheduled));
    jobs
}

pub(crate) async fn every_action_in_every_state<F: Fixture>(f: F) {
    let db = f.database();
    for action in all_actions() {
        for (id, state) in every_state(&f).await {
            let before = record(db, id).await;
            let answer = db.operator.act(&action, &[id], "ann").await.unwrap()[0];
            if !action.applies_to(state) {
                assert_eq!(answer, Operated::Refused(state), "{action:?}");
                assert_eq!(record(db, id).await.state, state, "{action:?}");
                continue;
            }
            let Some((after, failures)) = show(db, id).await else {
                assert_eq!((&action, answer), (&Action::Delete, Operated::Done));
                continue;
            };
            let last = failures.last().map(|failure| failure.message.as_str());
            match &action {
                Action::Retry | Action::RunNow => assert_eq!(after.state, JobState::Available, "{state}"),
                Action::Reschedule(at) => {
                    let later = if state == JobState::Retrying { state } else { JobState::Scheduled };
                    assert_eq!((after.state, after.run_at), (later, *at), "{state}");
                }
                Action::Cancel => assert_eq!((after.state, last), (JobState::Cancelled, Some("cancelled by ann"))),
                Action::Discard => assert_eq!((after.state, last), (JobState::Discarded, Some("discarded by ann"))),
                Action::Reprioritise(_) => assert_eq!((after.state, after.priority), (state, 7)),
                Action::Move(_) => assert_eq!((after.state, after.queue.as_str()), (state, "mail")),
                Action::Rerun => {
                    let Operated::Enqueued(new) = answer else { panic!("{answer:?}") };
                    let new = record(db, new).await;
                    assert_eq!((new.state, new.attempt, new.crashes), (JobState::Available, 0, 0));
                    assert_eq!((&new.kind, &new.queue, &new.args), (&before.kind, &before.queue, &before.args));
                    assert_eq!(after.state, state);
                    continue;
                }
                _ => panic!("{action:?} has left the job"),
            }
            assert_eq!(answer, Operated::Done);
            assert_eq!(
                (after.attempt, after.max_attempts),
                (before.attempt, before.max_attempts),
                "{action:?} {state}"
            );
        }
        assert_eq!(db.operator.act(&action, &[JobId(i64::MAX)], "ann").await.unwrap(), [Operated::NotFound]);
    }
    let left = format!("select count(*) as number from {} where actor = 'ann'", F::table("job_error"));
    assert_eq!(f.client().await.number(&left).await, 4 + 3);
}

pub(crate) async fn a_changed_job_is_claimed_as_it_is_now<F: Fixture>(f: F) {
    let db = f.database();
    let worker = worker(db).await;
    let jobs: Vec<JobId> = enqueue_all(&f, (0..4).map(|_| later(HOUR)).collect()).await;
    assert_eq!(claim(db, worker, 9).await.len(), 0);
    db.operator.act(&Action::RunNow, &jobs[..3], "ann").await.unwrap();
    db.operator.act(&Action::Reprioritise(5), &jobs[2..3], "ann").await.unwrap();
    db.operator.act(&Action::Move("elsewhere".into()), &jobs[1..2], "ann").await.unwrap();
    assert_eq!(ids(&claim(db, worker, 9).await), [jobs[2], jobs[0]]);
}

pub(crate) async fn a_rescheduled_job_is_due_at_its_new_time_and_has_no_permit_until_then<F: Fixture>(f: F) {
    let db = f.database();
    let worker = worker(db).await;
    let reschedule = async |at: DateTime<Utc>, id: JobId| {
        assert_eq!(db.operator.act(&Action::Reschedule(at), &[id], "ann").await.unwrap(), [Operated::Done]);
    };
    let jobs = enqueue_all(&f, vec![limited("x"); 3]).await;
    assert_eq!(admit(db).await, 2);
    reschedule(in_a_day(), jobs[0]).await;
    assert_eq!(state(db, jobs[0]).await, JobState::Scheduled);
    assert_eq!((admit(db).await, ids(&claim(db, worker, 9).await)), (1, jobs[1..].to_vec()));
    check(&f).await;
    reschedule(DateTime::UNIX_EPOCH, jobs[0]).await;
    assert_eq!((state(db, jobs[0]).await, admit(db).await), (JobState::Held, 0), "it waits for its permit");
    assert!(record(db, jobs[0]).await.run_at > DateTime::UNIX_EPOCH, "a time that has passed is now");

    // A job that expires a minute after it is due does so after its new time.
    let expires = enqueue(&f, with(|job| job.expires = Some(MINUTE))).await;
    reschedule((Utc::now() + HOUR).trunc_subsecs(6), expires).await;
    f.pass(HOUR / 2).await;
    assert!(db.storage.expire(HOUR).await.unwrap().is_empty());
    f.pass(HOUR).await;
    assert_eq!(db.storage.expire(HOUR).await.unwrap().len(), 1);
    let far = Action::Reschedule(Utc::now() + TimeDelta::days(37_000));
    assert!(matches!(db.operator.act(&far, &jobs[..1], "ann").await, Err(StorageError::Config(_))));
}

pub(crate) async fn large_arguments_outlive_every_action<F: Fixture>(f: F) {
    let db = f.database();
    let args = format!("{{\"a\":\"{}\"}}", "x".repeat(50_000));
    let job = enqueue(&f, with(|job| job.args = args.clone())).await;
    let rescheduled = Action::Reschedule(in_a_day());
    for action in [Action::Reprioritise(1), rescheduled, Action::Move("other".into()), Action::RunNow, Action::Cancel] {
        db.operator.act(&action, &[job], "ann").await.unwrap();
        assert_eq!(record(db, job).await.args, args, "{action:?}");
    }
    let Operated::Enqueued(again) = db.operator.act(&Action::Rerun, &[job], "ann").await.unwrap()[0] else { panic!() };
    db.operator.act(&Action::Delete, &[job], "ann").await.unwrap();
    assert_eq!(record(db, again).await.args, args);
    db.operator.act(&Action::Delete, &[again], "ann").await.unwrap();
    assert_eq!(f.client().await.number(F::payloads()).await, 0);
}

pub(crate) async fn each_action_writes_one_entry_to_the_audit<F: Fixture>(f: F) {
    let db = f.database();
    let jobs = enqueue_all(&f, (0..3).map(|_| job()).collect()).await;
    db.operator.act(&Action::Reprioritise(4), &jobs, "ann").await.unwrap();
    db.operator.act(&Action::Cancel, &jobs[..1], "ben").await.unwrap();
    // Nothing is changed, so nothing is written.
    db.operator.act(&Action::Cancel, &jobs[..1], "ben").await.unwrap();
    let audit = db.operator.audit(None, 10).await.unwrap();
    let [cancelled, raised] = &audit[..] else { panic!("{audit:?}") };
    assert_eq!(
        (&*cancelled.actor, &*cancelled.action, &*cancelled.target),
        ("ben", "cancel", &*format!("job {}", jobs[0]))
    );
    assert_eq!((&*raised.actor, &*raised.action, &*raised.target), ("ann", "reprioritise", "3 jobs"));
    assert_eq!(raised.detail, Some(json!({ "ids": jobs, "argument": "4" })));
    assert!(close(raised.at, now(db).await));
    assert_eq!(db.operator.audit(Some(cancelled.id), 10).await.unwrap(), audit[1..]);
    for actor in ["", "a\nb", "a\0", &"x".repeat(1000)] {
        let refused = db.operator.act(&Action::Cancel, &jobs, actor).await;
        assert!(matches!(refused, Err(StorageError::Config(_))), "{actor:?}");
    }
    assert_eq!(record(db, jobs[1]).await.state, JobState::Available);
}

/// Does all steps of an operation. Returns how many it took.
async fn done<F: Fixture>(f: &F, id: OperationId, limit: usize) -> usize {
    let mut steps = 0;
    while f.database().operator.step_operation(Some(id), limit).await.unwrap().is_some() {
        steps += 1;
    }
    steps
}

pub(crate) async fn an_operation_acts_on_all_that_match_and_exist_at_its_start<F: Fixture>(f: F) {
    let db = f.database();
    for action in all_actions() {
        let jobs = every_state(&f).await;
        let filter = JobFilter::of_ids(jobs.iter().map(|job| job.0));
        let expected = jobs.iter().filter(|(_, state)| action.states().any(|one| one == *state)).count();
        let found = preview(&*db.operator, &action, &filter).await.unwrap();
        assert_eq!((found.count.jobs, found.count.is_exact, found.sample.len()), (expected as u64, true, expected));
        let id = db.operator.start_operation(&action, &filter, "ann").await.unwrap();
        done(&f, id, 2).await;
        let record = db.operator.operation(id).await.unwrap().unwrap();
        assert_eq!((record.changed, &record.problem), (expected as i64, &None), "{action:?}");
        assert!(record.finished_at.is_some() && record.examined >= expected as i64);
        assert_eq!((record.action.as_str(), record.argument), (action.as_str(), action.argument()));
        let audit = db.operator.audit(None, 2).await.unwrap();
        let events: Vec<_> = audit.iter().map(|entry| entry.detail.as_ref().unwrap()["event"].clone()).collect();
        assert_eq!(events, ["ended", "started"], "{action:?}");
        assert!(audit.iter().all(|entry| entry.target == format!("operation {id}") && entry.actor == "ann"));
    }
    let id = db.operator.start_operation(&Action::Cancel, &JobFilter::default(), "ann").await.unwrap();
    let newer = enqueue(&f, job()).await;
    done(&f, id, STEP).await;
    assert_eq!(record(db, newer).await.state, JobState::Available);
    assert_eq!(db.storage.maintain(Chore::StepOperation, STEP).await.unwrap(), Maintained::default());
}

pub(crate) async fn steps_of_several_sessions_change_each_job_once<F: Fixture>(f: F) {
    let jobs = enqueue_all(&f, (0..500).map(|_| job()).collect()).await;
    f.database().operator.cancel_many(&jobs).await.unwrap();
    let filter = JobFilter::of_state(JobState::Cancelled);
    let id = f.database().operator.start_operation(&Action::Rerun, &filter, "ann").await.unwrap();
    let mut steppers = Vec::new();
    for _ in 0..3 {
        let db = f.again().await;
        steppers.push(tokio::spawn(async move {
            while db.operator.operation(id).await.unwrap().unwrap().finished_at.is_none() {
                db.operator.step_operation(None, 20).await.unwrap();
            }
        }));
    }
    for stepper in steppers {
        stepper.await.unwrap();
    }
    let record = f.database().operator.operation(id).await.unwrap().unwrap();
    assert_eq!((record.changed, record.problem), (500, None));
    let again = f.database().operator.list_all(&JobFilter::of_state(JobState::Available), 10_000).await.unwrap();
    assert_eq!(again.len(), 500);
}

pub(crate) async fn a_cancelled_operation_ends<F: Fixture>(f: F) {
    let db = f.database();
    enqueue_all(&f, (0..5).map(|_| job()).collect()).await;
    let id = db.operator.start_operation(&Action::Cancel, &JobFilter::default(), "ann").await.unwrap();
    db.operator.step_operation(None, 2).await.unwrap();
    assert!(db.operator.cancel_operation(id, "ben").await.unwrap());
    assert!(!db.operator.cancel_operation(id, "ben").await.unwrap());
    assert!(!db.operator.cancel_operation(OperationId(i64::MAX), "ben").await.unwrap());
    assert_eq!(db.operator.step_operation(None, 2).await.unwrap(), None);
    let record = db.operator.operation(id).await.unwrap().unwrap();
    assert_eq!((record.changed, record.cancelled_by.as_deref()), (2, Some("ben")));
    assert_eq!(db.operator.operations(None, 9).await.unwrap(), [record]);
    assert_eq!(db.operator.list_all(&JobFilter::of_state(JobState::Available), 9).await.unwrap().len(), 3);
}

pub(crate) async fn an_operation_that_cannot_be_read_ends_and_changes_nothing<F: Fixture>(f: F) {
    let db = f.database();
    let job = enqueue(&f, job()).await;
    for (filter, part) in [
        (r#"{"colour":"red"}"#, "unknown field `colour`"),
        (r#"{"states":["vanished"]}"#, "vanished"),
        (r#"{"states":["completed"]}"#, "applies to jobs that are"),
        (r#"{"kinds":["a\u0000"]}"#, "NUL"),
        ("[]", "invalid"),
        ("null", "invalid type"),
    ] {
        let id = db.operator.start_operation(&Action::Cancel, &JobFilter::default(), "ann").await.unwrap();
        let spoilt = format!("update {} set filter = '{filter}' where id = {id}", F::table("operation"));
        f.client().await.execute(&spoilt).await.unwrap();
        assert_eq!(done(&f, id, STEP).await, 1, "{filter}");
        let record = db.operator.operation(id).await.unwrap().unwrap();
        assert!(record.finished_at.is_some() && record.changed == 0);
        let problem = record.problem.unwrap();
        assert!(problem.contains(part), "{filter}: {problem}");
    }
    assert_eq!(record(db, job).await.state, JobState::Available);
}

pub(crate) async fn failures_are_grouped<F: Fixture>(f: F) {
    let db = f.database();
    let worker = worker(db).await;
    for number in 0..4 {
        let kind = if number == 3 { "b" } else { "a" };
        let job = claimed(&f, worker, with(|job| job.kind = kind.into())).await;
        let failure = failure(&format!("user {number} is gone"));
        let transition = match number {
            0 => diesel_jobs_core::Transition::Discard { failure, keep: diesel_jobs_core::Keep::For(HOUR) },
            _ => diesel_jobs_core::Transition::Retry { delay: HOUR, failure },
        };
        assert!(finish(db, &job, transition).await);
    }
    let failures = db.operator.failures(10).await.unwrap();
    assert_eq!((failures.examined, failures.is_complete), (4, true));
    let groups: Vec<_> =
        failures.groups.iter().map(|g| (&*g.kind, g.failures, g.jobs, g.discarded, g.retrying, &*g.message)).collect();
    assert_eq!(groups, [("a", 3, 3, 1, 2, "user 2 is gone"), ("b", 1, 1, 0, 1, "user 3 is gone")]);
    assert_eq!(db.operator.failures(1).await.unwrap().groups.len(), 1);
}

pub(crate) async fn every_attempt_is_returned<F: Fixture>(f: F) {
    let db = f.database();
    let worker = worker(db).await;
    let job = claimed(&f, worker, job()).await;
    assert!(finish(db, &job, retry_in(std::time::Duration::ZERO)).await);
    let again = claim(db, worker, 1).await.remove(0);
    let attempts = db.operator.attempts(job.lease.job).await.unwrap().unwrap();
    let told: Vec<_> = attempts.iter().map(|one| (one.attempt, one.worker, one.ended_at.is_some())).collect();
    assert_eq!(told, [(1, Some(worker), true), (2, Some(worker), false)]);
    assert!(finish(db, &again, DONE).await);
    let attempts = db.operator.attempts(job.lease.job).await.unwrap().unwrap();
    assert_eq!(serde_json::to_value(attempts[1].end).unwrap(), json!("completed"));
    assert_eq!(attempts[0].error.as_deref(), Some("it did not work"));
    assert!(db.operator.attempts(JobId(i64::MAX)).await.unwrap().is_none());
}

pub(crate) async fn an_import_enqueues_all_jobs_or_none<F: Fixture>(f: F) {
    let db = f.database();
    let ids = db.operator.enqueue(&[job(), later(HOUR)], "import", "ann").await.unwrap();
    assert_eq!(record(db, ids[1].id()).await.state, JobState::Scheduled);
    let entry = db.operator.audit(None, 1).await.unwrap().remove(0);
    assert_eq!(
        (&*entry.action, &*entry.target, entry.detail),
        ("import", "2 jobs", Some(json!({ "first": ids[0], "last": ids[1], "new": 2 })))
    );
    let refused = db.operator.enqueue(&[job(), with(|job| job.queue = "".into())], "import", "ann").await;
    assert!(matches!(refused, Err(StorageError::Config(_))));
    assert_eq!(db.operator.list_all(&JobFilter::default(), 9).await.unwrap().len(), 2);
}
