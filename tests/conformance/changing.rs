//! What an application does to its jobs on its own connection: it cancels, retries and reschedules them.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use diesel_jobs_core::storage::{Action, RetentionSetting};
use diesel_jobs_core::{AttemptError, JobId, JobRecord, JobState, Keep, Limit, NewJob, Sequence, Unique, Until};
use diesel_jobs_storage::{ChangeError, Database};

use crate::acting::every_state;
use crate::bench::*;
use crate::client::Client;
use crate::client::Which::{Like, One, Some as Many, Tag};
use crate::fixture::Fixture;
use crate::limiting::{admit, check, limited};
use crate::unique::keys;

fn in_an_hour() -> DateTime<Utc> {
    // The databases store microseconds.
    DateTime::from_timestamp_micros((Utc::now() + HOUR).timestamp_micros()).unwrap()
}

fn tagged(tag: &str) -> NewJob {
    with(|job| job.tags = vec![tag.to_owned(), "other".to_owned()])
}

fn unique(user: &str, until: Until) -> NewJob {
    let args = serde_json::json!({ "user": user, "note": "x" });
    NewJob::raw("a", args.to_string()).unique(Unique::new().by(&["user"]).until(until)).unwrap()
}

/// The entries of the audit, oldest first: action, target and actor.
async fn audit<F: Fixture>(f: &F) -> Vec<(String, String, String)> {
    let mut entries = f.database().operator.audit(None, 100).await.unwrap();
    entries.reverse();
    entries.into_iter().map(|entry| (entry.action, entry.target, entry.actor)).collect()
}

pub(crate) async fn every_type_of_connection_changes_jobs<F: Fixture>(f: F) {
    let db = f.database();
    for (name, mut client) in f.clients().await {
        let id = client.enqueue(job()).await.unwrap();
        let before = audit(&f).await.len();
        assert_eq!(client.cancel(One(id)).await.unwrap(), 1, "{name}");
        assert_eq!(state(db, id).await, JobState::Cancelled, "{name}");
        assert_eq!(client.cancel(One(id)).await.unwrap(), 0, "{name}: it has ended");
        assert_eq!(client.retry(One(id)).await.unwrap(), 1, "{name}");
        assert_eq!(state(db, id).await, JobState::Available, "{name}");
        let at = in_an_hour();
        assert_eq!(client.reschedule(One(id), at).await.unwrap(), 1, "{name}");
        let job = record(db, id).await;
        assert_eq!((job.state, job.run_at), (JobState::Scheduled, at), "{name}");
        assert_eq!(client.reschedule(One(id), at - TimeDelta::days(30)).await.unwrap(), 1, "{name}");
        assert_eq!(state(db, id).await, JobState::Available, "{name}: a time that has passed is now");

        let entries = audit(&f).await.split_off(before);
        let actions: Vec<&str> = entries.iter().map(|(action, ..)| action.as_str()).collect();
        assert_eq!(actions, ["cancel", "retry", "reschedule", "reschedule"], "{name}");
        let [failure] = failures(db, id).await.try_into().unwrap();
        for (_, target, actor) in entries {
            assert_eq!(target, format!("job {id}"), "{name}");
            assert!(actor.starts_with("role ") || actor == "the application", "{name}: {actor}");
            assert_eq!(failure.message, format!("cancelled by {actor}"), "{name}");
            assert_eq!(failure.actor, Some(actor), "{name}");
        }
        assert_eq!(client.cancel(One(JobId(i64::MAX))).await.unwrap(), 0, "{name}");
        assert_eq!(client.cancel(Many(Vec::new())).await.unwrap(), 0, "{name}");
        assert_eq!(client.cancel(Many(vec![id, id])).await.unwrap(), 1, "{name}: an id that is given twice");
    }
}

pub(crate) async fn a_rollback_undoes_a_change<F: Fixture>(f: F) {
    let db = f.database();
    let worker = worker(db).await;
    for (name, mut client) in f.clients().await {
        let running = claimed(&f, worker, with(|job| job.priority = 9)).await;
        let ended = claimed(&f, worker, with(|job| job.priority = 9)).await;
        assert!(finish(db, &ended, discard()).await);
        let waiting = client.enqueue(tagged("mine")).await.unwrap();
        let held = client.enqueue(limited(name)).await.unwrap();
        let ids = [running.lease.job, ended.lease.job, waiting, held];
        let mut before = Vec::new();
        for id in ids {
            before.push((stored(db, id).await, failures(db, id).await.len()));
        }
        let entries = audit(&f).await.len();
        client.begin().await;
        assert_eq!(client.cancel(One(ids[0])).await.unwrap(), 1, "{name}");
        assert_eq!(client.retry(One(ids[1])).await.unwrap(), 1, "{name}");
        assert_eq!(client.reschedule(Tag("mine"), in_an_hour()).await.unwrap(), 1, "{name}");
        assert_eq!(client.cancel(One(held)).await.unwrap(), 1, "{name}");
        client.rollback().await;
        for (id, (job, count)) in ids.iter().zip(before) {
            assert_eq!(stored(db, *id).await, job, "{name}");
            assert_eq!(failures(db, *id).await.len(), count, "{name}");
        }
        assert_eq!(audit(&f).await.len(), entries, "{name}");
        assert!(finish(db, &running, DONE).await, "{name}: it has its lease");
        assert_eq!(client.cancel(Many(ids.to_vec())).await.unwrap(), 2, "{name}");
    }
}

async fn stored(db: &Database, id: JobId) -> serde_json::Value {
    serde_json::to_value(record(db, id).await).unwrap()
}

/// Without the times, which differ by a moment.
fn comparable(mut job: JobRecord) -> serde_json::Value {
    job.id = JobId(0);
    let epoch = DateTime::UNIX_EPOCH;
    (job.run_at, job.enqueued_at) = (epoch, epoch);
    job.claimed_at = job.claimed_at.map(|_| epoch);
    job.finished_at = job.finished_at.map(|_| epoch);
    job.worker = None;
    job.last_error = job.last_error.map(|error| error.replace("the operator", "X").replace("the application", "X"));
    job.last_error =
        job.last_error.map(|error| if error.contains("by role ") { "cancelled by X".to_owned() } else { error });
    serde_json::to_value(job).unwrap()
}

fn fingerprints(failures: &[AttemptError]) -> Vec<Option<i64>> {
    failures.iter().map(|failure| failure.fingerprint).collect()
}

/// Jobs with and without rules in one call, each of which keeps or gives back what is its own.
pub(crate) async fn jobs_of_all_sorts_are_retried_together<F: Fixture>(f: F) {
    let db = f.database();
    let worker = worker(db).await;
    let mut client = f.client().await;
    for by_operator in [false, true] {
        let plain = claimed(&f, worker, with(|job| job.priority = 9)).await;
        assert!(finish(db, &plain, discard()).await);
        let admitted = client.enqueue_all(vec![limited("x"); 2]).await.unwrap();
        assert_eq!(admit(db).await, 2);
        let in_turn = || limited("y").rule(Sequence::new("s")).unwrap();
        let turns = client.enqueue_all(vec![in_turn(), in_turn()]).await.unwrap();
        let held = client.enqueue_all(vec![limited("x"), limited("z")]).await.unwrap();
        assert_eq!(client.cancel(One(held[1])).await.unwrap(), 1);
        let ids = [vec![plain.lease.job, held[0]], admitted, held[1..].to_vec(), turns].concat();
        let changed = match by_operator {
            true => db
                .operator
                .act(&Action::Retry, &ids, "ann")
                .await
                .unwrap()
                .iter()
                .filter(|answer| answer.has_changed())
                .count(),
            false => client.retry(Many(ids.clone())).await.unwrap(),
        };
        assert_eq!(changed, ids.len());
        check(&f).await;
        while admit(db).await > 0 {
            check(&f).await;
        }
        assert_eq!(client.cancel(Many(ids.clone())).await.unwrap(), ids.len());
        let permits = format!("select count(*) as number from {}", F::table("permit"));
        assert_eq!(client.number(&permits).await, 0);
    }
}

/// In each state, an application's change does what an operator's action does.
pub(crate) async fn an_application_changes_what_an_operator_changes<F: Fixture>(f: F) {
    let db = f.database();
    for action in [Action::Cancel, Action::Retry, Action::Reschedule(in_an_hour())] {
        let mut by_operator = Vec::new();
        for (id, _) in every_state(&f).await {
            db.operator.act(&action, &[id], "the operator").await.unwrap();
            by_operator.push((comparable(record(db, id).await), fingerprints(&failures(db, id).await)));
        }
        let mut client = f.client().await;
        for ((id, was), expected) in every_state(&f).await.into_iter().zip(by_operator) {
            let changed = match action {
                Action::Cancel => client.cancel(One(id)).await.unwrap(),
                Action::Reschedule(at) => client.reschedule(One(id), at).await.unwrap(),
                _ => client.retry(One(id)).await.unwrap(),
            };
            assert_eq!(changed, usize::from(action.applies_to(was)), "{action:?} of a job that is {was}");
            let found = (comparable(record(db, id).await), fingerprints(&failures(db, id).await));
            assert_eq!(found, expected, "{action:?} of a job that was {was}");
        }
    }
}

pub(crate) async fn jobs_are_found_by_their_tag<F: Fixture>(f: F) {
    let db = f.database();
    let worker = worker(db).await;
    let mut client = f.client().await;
    let running = claimed(&f, worker, tagged("order-7")).await.lease.job;
    let discarded = claimed(&f, worker, tagged("order-7")).await;
    assert!(finish(db, &discarded, discard()).await);
    let completed = claimed(&f, worker, tagged("order-7")).await;
    assert!(finish(db, &completed, DONE).await);
    let waiting = client.enqueue(tagged("order-7")).await.unwrap();
    let held = client.enqueue(tagged("order-7").rule(Limit::new("l", 2).key("x")).unwrap()).await.unwrap();
    let others = [client.enqueue(tagged("order-77")).await.unwrap(), client.enqueue(job()).await.unwrap()];

    let at = in_an_hour();
    assert_eq!(client.reschedule(Tag("order-7"), at).await.unwrap(), 2);
    assert_eq!((record(db, waiting).await.run_at, record(db, held).await.run_at), (at, at));
    assert_eq!(client.cancel(Tag("order-7")).await.unwrap(), 3);
    for id in [running, waiting, held] {
        assert_eq!(state(db, id).await, JobState::Cancelled);
    }
    assert_eq!(client.retry(Tag("order-7")).await.unwrap(), 4);
    assert_eq!(state(db, discarded.lease.job).await, JobState::Available);
    assert_eq!(state(db, completed.lease.job).await, JobState::Completed);
    for id in others {
        assert_eq!(state(db, id).await, JobState::Available, "another tag");
    }
    let last = audit(&f).await.pop().unwrap();
    assert_eq!((last.0.as_str(), last.1.as_str()), ("retry", "4 jobs"));
    for odd in ["", "'", "\"", "[]", "a\\"] {
        assert_eq!(client.cancel(Tag(odd)).await.unwrap(), 0, "{odd:?}");
    }
}

pub(crate) async fn a_job_is_found_by_its_unique_key<F: Fixture>(f: F) {
    let db = f.database();
    let worker = worker(db).await;
    let mut client = f.client().await;
    let id = client.enqueue(unique("ann", Until::Finished)).await.unwrap();
    let other = client.enqueue(unique("bob", Until::Finished)).await.unwrap();
    let mut like = unique("ann", Until::Finished);
    like.args = "{\"user\":\"ann\"}".into();
    let at = in_an_hour();
    assert_eq!(client.reschedule(Like(like.clone()), at).await.unwrap(), 1);
    assert_eq!(record(db, id).await.run_at, at);
    assert_eq!(client.cancel(Like(like.clone())).await.unwrap(), 1);
    assert_eq!((state(db, id).await, state(db, other).await), (JobState::Cancelled, JobState::Available));
    assert_eq!(keys(&f).await, 1, "the other one's");
    assert_eq!(client.cancel(Like(like.clone())).await.unwrap(), 0, "an ended job has no key");
    let again = client.answer(unique("ann", Until::Finished)).await.unwrap();
    assert!(again.is_new(), "the key is free");
    let running = claim(db, worker, 9).await;
    assert!(ids(&running).contains(&again.id()));
    assert_eq!(client.cancel(Like(like)).await.unwrap(), 1, "a running job has its key");

    // A key until the start is that of a job that has not started.
    let id = client.enqueue(unique("eve", Until::Started)).await.unwrap();
    assert_eq!(client.reschedule(Like(unique("eve", Until::Started)), Utc::now()).await.unwrap(), 1);
    assert_eq!(ids(&claim(db, worker, 9).await), [id]);
    assert_eq!(client.cancel(Like(unique("eve", Until::Started))).await.unwrap(), 0);
    assert_eq!(state(db, id).await, JobState::Running);

    let refused = client.cancel(Like(job())).await.unwrap_err();
    assert!(matches!(refused, ChangeError::Invalid(_)), "{refused}");
    assert!(refused.to_string().contains("job `a` has no unique key"), "{refused}");
}

pub(crate) async fn a_cancelled_job_that_runs_loses_its_lease<F: Fixture>(f: F) {
    let db = f.database();
    let worker = worker(db).await;
    let running = claimed(&f, worker, job()).await;
    assert_eq!(f.client().await.cancel(One(running.lease.job)).await.unwrap(), 1);
    assert!(!finish(db, &running, DONE).await);
    let told = db.storage.cancelled(&[running.lease.job]).await.unwrap();
    assert!(told[0].by.is_some(), "{told:?}");
}

pub(crate) async fn permits_are_given_back<F: Fixture>(f: F) {
    let db = f.database();
    let worker = worker(db).await;
    let mut client = f.client().await;
    let ids = client.enqueue_all(vec![limited("x"); 6]).await.unwrap();
    assert_eq!(admit(db).await, 2);
    // A scheduled job has no permit.
    assert_eq!(client.reschedule(One(ids[0]), in_an_hour()).await.unwrap(), 1);
    assert_eq!(admit(db).await, 1);
    check(&f).await;
    assert_eq!(state(db, ids[0]).await, JobState::Scheduled);
    assert_eq!(client.cancel(One(ids[1])).await.unwrap(), 1);
    assert_eq!(admit(db).await, 1);
    check(&f).await;
    let running = claim(db, worker, 1).await;
    assert_eq!(client.cancel(One(running[0].lease.job)).await.unwrap(), 1);
    assert_eq!(admit(db).await, 1);
    check(&f).await;
    // A job that is made available waits for its permit.
    assert_eq!(client.retry(Many(vec![ids[0], ids[1]])).await.unwrap(), 2);
    assert_eq!((state(db, ids[0]).await, state(db, ids[1]).await), (JobState::Held, JobState::Held));
    // One that is available keeps its permit, also together with others.
    assert_eq!(client.retry(Many(vec![ids[0], ids[3]])).await.unwrap(), 2);
    assert_eq!((state(db, ids[0]).await, state(db, ids[3]).await), (JobState::Held, JobState::Available));
    check(&f).await;
    assert_eq!(client.reschedule(One(ids[1]), in_an_hour()).await.unwrap(), 1);
    assert_eq!(state(db, ids[1]).await, JobState::Scheduled);
    assert_eq!(client.reschedule(One(ids[1]), Utc::now()).await.unwrap(), 1);
    assert_eq!(state(db, ids[1]).await, JobState::Held);
    assert_eq!(client.cancel(Many(ids)).await.unwrap(), 5);
    let permits = format!("select count(*) as number from {}", F::table("permit"));
    assert_eq!(client.number(&permits).await, 0);
}

pub(crate) async fn a_sequence_goes_on_after_a_cancelled_job<F: Fixture>(f: F) {
    let db = f.database();
    let mut client = f.client().await;
    let next = || job().rule(Sequence::new("s")).unwrap();
    let ids = client.enqueue_all(vec![next(), next(), next()]).await.unwrap();
    assert_eq!(admit(db).await, 1);
    assert_eq!(client.reschedule(One(ids[0]), in_an_hour()).await.unwrap(), 1);
    assert_eq!(admit(db).await, 0, "it keeps its turn while it is scheduled");
    assert_eq!(client.cancel(One(ids[0])).await.unwrap(), 1);
    assert_eq!(admit(db).await, 1);
    assert_eq!(state(db, ids[1]).await, JobState::Available);
}

pub(crate) async fn a_change_respects_retention_and_expiry<F: Fixture>(f: F) {
    let db = f.database();
    let mut client = f.client().await;
    let kept = async |client: &mut Box<dyn Client>, job: NewJob| {
        let id = client.enqueue(job).await.unwrap();
        assert_eq!(client.cancel(One(id)).await.unwrap(), 1);
        let expires = match F::TABLES.contains(&"ready") {
            true => format!(
                "select coalesce(extract(epoch from expires_at - finished_at)::bigint, -1) as number from jobs.finished where id = {id}"
            ),
            false => format!(
                "select coalesce((expires_at - finished_at) / 1000000, -1) as number from jobs_job where id = {id}"
            ),
        };
        client.number(&expires).await
    };
    let of_kind = |kind: &'static str| NewJob::raw(kind, "{}");
    assert_eq!(kept(&mut client, of_kind("a")).await, 30 * 24 * 3600, "the default");
    let setting =
        |kind: Option<&str>, keep| RetentionSetting { kind: kind.map(str::to_owned), state: JobState::Cancelled, keep };
    for setting in
        [setting(None, Keep::For(HOUR)), setting(Some("b"), Keep::Forever), setting(Some("c"), Keep::Nothing)]
    {
        db.operator.set_retention(&setting, "ann").await.unwrap();
    }
    assert_eq!(kept(&mut client, of_kind("a")).await, 3600);
    assert_eq!(kept(&mut client, of_kind("b")).await, -1);
    assert_eq!(kept(&mut client, of_kind("c")).await, 0);

    // A job that expires a minute after it is due does so after its new time.
    let id = client.enqueue(with(|job| job.expires = Some(MINUTE))).await.unwrap();
    assert_eq!(client.reschedule(One(id), in_an_hour()).await.unwrap(), 1);
    f.pass(HOUR / 2).await;
    assert!(db.storage.expire(HOUR).await.unwrap().is_empty());
    f.pass(HOUR).await;
    assert_eq!(db.storage.expire(HOUR).await.unwrap().len(), 1);
    assert_eq!(state(db, id).await, JobState::Cancelled);
}

pub(crate) async fn impossible_times_are_refused<F: Fixture>(f: F) {
    let db = f.database();
    for (name, mut client) in f.clients().await {
        let id = client.enqueue(job()).await.unwrap();
        client.begin().await;
        for far in [Utc::now() + Duration::from_secs(101 * 366 * 24 * 3600), DateTime::<Utc>::MAX_UTC] {
            let refused = client.reschedule(One(id), far).await.unwrap_err();
            assert!(matches!(refused, ChangeError::TooFarAhead(_)), "{name}: {refused}");
        }
        assert_eq!(client.reschedule(One(id), DateTime::<Utc>::MIN_UTC).await.unwrap(), 1, "{name}");
        client.commit().await;
        assert_eq!(state(db, id).await, JobState::Available, "{name}");
    }
}
