//! Unique jobs: at most one job with the same key that has not ended, or not started.

use std::time::Duration;

use diesel_jobs_core::storage::{Action, Operated};
use diesel_jobs_core::{
    Enqueued, JobId, JobState, Keep, Limit, NewJob, OnConflict, Replace, RunAt, Sequence, Transition, Unique, Until,
};
use diesel_jobs_storage::EnqueueError;
use futures_util::future::join_all;

use crate::bench::*;
use crate::client::Client;
use crate::fixture::Fixture;
use crate::limiting::admit;

const RULE: Unique = Unique::new().by(&["user"]);
const REPLACE: Unique = RULE.on_conflict(OnConflict::Replace(Replace::new().args().run_at().priority()));

/// A unique job of kind `a` of this user.
fn of(user: &str, rule: Unique) -> NewJob {
    with_note(user, "", rule)
}

fn with_note(user: &str, note: &str, rule: Unique) -> NewJob {
    let args = serde_json::json!({ "user": user, "note": note });
    NewJob::raw("a", args.to_string()).unique(rule).unwrap()
}

async fn answer<F: Fixture>(f: &F, job: NewJob) -> Enqueued {
    f.client().await.answer(job).await.unwrap()
}

/// How many keys are stored.
pub(crate) async fn keys<F: Fixture>(f: &F) -> i64 {
    f.client().await.number(&format!("select count(*) as number from {}", F::table("unique_key"))).await
}

async fn jobs<F: Fixture>(f: &F) -> i64 {
    f.client().await.number(&format!("select count(*) as number from {}", F::VIEW)).await
}

pub(crate) async fn an_enqueue_keeps_the_job_that_has_the_key<F: Fixture>(f: F) {
    let db = f.database();
    let worker = worker(db).await;
    for (name, mut client) in f.clients().await {
        let first = client.answer(of(name, RULE)).await.unwrap();
        assert!(first.is_new(), "{name}");
        let second = client.answer(of(name, RULE)).await.unwrap();
        assert!(second.is_existing() && second == first.id(), "{name}: {second:?}");
        assert!(client.answer(of("other", RULE)).await.unwrap().id() != first.id(), "{name}");
    }
    let first = answer(&f, of("x", RULE)).await.id();
    let mut attempts = 0;
    // A running job has the key, and one that waits for its next attempt.
    for transition in [retry_in(Duration::ZERO), Transition::Snooze(Duration::ZERO), Transition::Release, DONE] {
        let claimed = claim(db, worker, 99).await;
        let job = claimed.iter().find(|job| job.lease.job == first).expect("it is claimed");
        assert!(answer(&f, of("x", RULE)).await.is_existing());
        assert!(finish(db, job, transition.clone()).await);
        for other in claimed.iter().filter(|job| job.lease.job != first) {
            assert!(finish(db, other, Transition::Release).await);
        }
        attempts += 1;
        let again = answer(&f, of("x", RULE)).await;
        assert_eq!(again.is_new(), transition == DONE, "{attempts}: {}", transition.name());
    }
}

pub(crate) async fn every_end_releases_the_key<F: Fixture>(f: F) {
    let db = f.database();
    let worker = worker(db).await;
    for end in [DONE, Transition::Complete(Keep::Nothing), discard(), cancel()] {
        let id = answer(&f, of("x", RULE)).await.id();
        assert_eq!(keys(&f).await, 1, "{}", end.name());
        let plain = enqueue(&f, job()).await;
        let claimed = claim(db, worker, 9).await;
        assert_eq!(ids(&claimed), [id, plain]);
        let finishes: Vec<_> = claimed.iter().map(|job| diesel_jobs_core::Finish::new(job, end.clone())).collect();
        assert_eq!(db.storage.finish_all(&finishes).await.unwrap().len(), 2);
        assert_eq!(keys(&f).await, 0, "{}", end.name());
    }
    for action in [Action::Cancel, Action::Discard, Action::Delete] {
        let id = answer(&f, of("x", RULE)).await.id();
        assert_eq!(db.operator.act(&action, &[id], "ann").await.unwrap(), [Operated::Done]);
        assert_eq!(keys(&f).await, 0, "{action:?}");
        // A retry of an ended job takes no key, so it cannot fail.
        let next = answer(&f, of("x", RULE)).await;
        assert!(next.is_new());
        if action != Action::Delete {
            assert_eq!(db.operator.act(&Action::Retry, &[id], "ann").await.unwrap(), [Operated::Done]);
            assert_eq!(db.operator.act(&Action::Cancel, &[id], "ann").await.unwrap(), [Operated::Done]);
            assert_eq!(keys(&f).await, 1, "the key of the other job stays");
            assert!(matches!(db.operator.act(&Action::Rerun, &[id], "ann").await.unwrap()[0], Operated::Enqueued(_)));
        }
        assert_eq!(db.operator.act(&Action::Cancel, &[next.id()], "ann").await.unwrap(), [Operated::Done]);
    }
    assert_eq!(keys(&f).await, 0);
}

pub(crate) async fn a_rescue_keeps_or_releases_the_key<F: Fixture>(f: F) {
    let db = f.database();
    let dead = mortal(db).await;
    let mut once = of("x", RULE);
    once.max_attempts = 1;
    let lost = answer(&f, once).await.id();
    let kept = answer(&f, of("y", RULE)).await.id();
    assert_eq!(claim(db, dead, 2).await.len(), 2);
    tokio::time::sleep(Duration::from_millis(20)).await;
    let rescued = rescue(db, POLICY).await;
    assert_eq!((rescued.returned, rescued.discarded), (vec![kept], vec![lost]));
    assert_eq!(keys(&f).await, 1);
    assert!(answer(&f, of("y", RULE)).await.is_existing());
    assert!(answer(&f, of("x", RULE)).await.is_new());
}

pub(crate) async fn a_key_until_the_start_is_free_when_the_job_has_started<F: Fixture>(f: F) {
    let db = f.database();
    let worker = worker(db).await;
    let rule = RULE.until(Until::Started);
    let first = answer(&f, of("x", rule)).await.id();
    assert!(answer(&f, of("x", rule)).await.is_existing());
    let claimed = claim(db, worker, 1).await;
    let second = answer(&f, of("x", rule)).await;
    assert!(second.is_new());
    assert!(answer(&f, of("x", rule)).await == second.id());
    // The first job has lost its key. Its end does not release the key of the other job, and its next attempt takes no
    // key.
    assert!(finish(db, &claimed[0], retry_in(Duration::ZERO)).await);
    assert!(answer(&f, of("x", rule)).await == second.id());
    for _ in 0..2 {
        let claimed = claim(db, worker, 9).await;
        for job in &claimed {
            assert!(finish(db, job, DONE).await);
        }
    }
    assert_eq!((keys(&f).await, state(db, first).await), (0, JobState::Completed));
}

pub(crate) async fn a_waiting_job_is_replaced<F: Fixture>(f: F) {
    let db = f.database();
    let worker = worker(db).await;
    let large = "ab c".repeat(20_000);
    for limited in [false, true] {
        let limit = |job: NewJob| match limited {
            true => job.rule(Limit::new("stripe", 1)).unwrap(),
            false => job,
        };
        let mut late = limit(with_note("x", &large, REPLACE));
        late.run_at = RunAt::After(HOUR);
        let first = answer(&f, late).await.id();
        for note in ["small", &large, "newest"] {
            let mut new = limit(with_note("x", note, REPLACE));
            new.priority = 7;
            let replaced = answer(&f, new).await;
            assert!(replaced.is_replaced() && replaced == first, "{replaced:?}");
            let found = record(db, first).await;
            assert!(found.args.contains(note) && found.priority == 7);
        }
        if limited {
            assert_eq!(admit(db).await, 1);
        }
        let claimed = claim(db, worker, 1).await.remove(0);
        assert_eq!(claimed.lease.job, first);
        assert!(String::from_utf8(claimed.args.clone()).unwrap().contains("newest"));
        let kept = answer(&f, limit(with_note("x", "too late", REPLACE))).await;
        assert!(kept.is_existing() && kept == first, "it runs");
        assert!(finish(db, &claimed, retry_in(HOUR)).await);
        let only_args = RULE.on_conflict(OnConflict::Replace(Replace::new().args()));
        let before = record(db, first).await;
        assert!(answer(&f, limit(with_note("x", "for the retry", only_args))).await.is_replaced());
        let after = record(db, first).await;
        assert!(after.args.contains("for the retry"));
        assert_eq!((after.run_at, after.priority), (before.run_at, 7));
        assert_eq!(db.operator.act(&Action::Cancel, &[first], "ann").await.unwrap(), [Operated::Done]);
        assert_eq!(keys(&f).await, 0);
    }
}

pub(crate) async fn a_conflict_is_an_error_that_leaves_the_transaction_usable<F: Fixture>(f: F) {
    let rule = RULE.on_conflict(OnConflict::Error);
    for (name, mut client) in f.clients().await {
        let first = client.answer(of(name, rule)).await.unwrap().id();
        let before = jobs(&f).await;
        client.begin().await;
        let refused = client.answer(of(name, rule)).await.unwrap_err();
        assert!(matches!(&refused, EnqueueError::Exists { id, .. } if *id == first), "{name}: {refused}");
        let text = refused.to_string();
        assert!(text.contains(&format!("job {first}")) && text.contains(name), "{text}");
        client.answer(of("in the same transaction", RULE)).await.unwrap();
        client.commit().await;
        assert_eq!(jobs(&f).await, before + i64::from(before == 1), "{name}");
        // All jobs of a bulk or none.
        let bulk = vec![of("a", RULE), job(), of(name, rule), of("z", RULE)];
        assert!(matches!(client.answers(bulk).await, Err(EnqueueError::Exists { .. })), "{name}");
        let twice = vec![of("b", rule), of("b", rule)];
        assert!(client.answers(twice).await.unwrap_err().is_invalid_job(), "{name}");
    }
    assert_eq!(keys(&f).await, i64::try_from(f.clients().await.len()).unwrap() + 1);
}

pub(crate) async fn a_key_ends_with_its_time<F: Fixture>(f: F) {
    // The time of the job that has the key applies.
    let long = RULE.within(3 * HOUR);
    let kept = answer(&f, of("kept", long)).await.id();
    assert!(answer(&f, of("kept", RULE.within(MINUTE))).await == kept);
    let first = answer(&f, of("x", RULE.within(HOUR))).await.id();
    f.client().await.execute(&F::passed(HOUR)).await.unwrap();
    let second = answer(&f, of("x", long)).await;
    assert!(second.is_new() && second != first);
    // The end of the first job does not release the key of the second one.
    assert_eq!(f.database().operator.act(&Action::Cancel, &[first], "ann").await.unwrap(), [Operated::Done]);
    assert!(answer(&f, of("x", RULE)).await == second.id());
}

pub(crate) async fn a_rollback_frees_the_key<F: Fixture>(f: F) {
    for (name, mut client) in f.clients().await {
        client.begin().await;
        assert!(client.answer(of("x", RULE)).await.unwrap().is_new(), "{name}");
        assert!(client.answer(of("x", RULE)).await.unwrap().is_existing(), "{name}");
        client.rollback().await;
        assert_eq!((keys(&f).await, jobs(&f).await), (0, 0), "{name}");
    }
}

pub(crate) async fn a_bulk_has_an_answer_for_each_job_in_order<F: Fixture>(f: F) {
    let db = f.database();
    for (name, mut client) in f.clients().await {
        let existing = client.answer(with_note("m", "old", REPLACE)).await.unwrap().id();
        let bulk = vec![
            with_note("z", "1", RULE),
            job(),
            with_note("m", "2", REPLACE),
            with_note("z", "3", RULE),
            job().rule(Limit::new("stripe", 2)).unwrap(),
            with_note("c", "5", REPLACE),
            with_note("c", "6", REPLACE),
        ];
        let answers = client.answers(bulk).await.unwrap();
        let new: Vec<bool> = answers.iter().map(|answer| answer.is_new()).collect();
        assert_eq!(new, [true, true, false, false, true, true, false], "{name}");
        assert!(answers[2].is_replaced() && answers[2] == existing, "{name}");
        assert!(answers[3].is_existing() && answers[3].id() == answers[0].id(), "{name}");
        assert!(answers[6].is_replaced() && answers[6].id() == answers[5].id(), "{name}");
        let note = async |place: usize| record(db, answers[place].id()).await.args;
        assert!(note(0).await.contains("\"1\"") && note(2).await.contains("\"2\"") && note(5).await.contains("\"6\""));
        assert_eq!(note(1).await, "{}");
        assert_eq!(state(db, answers[4].id()).await, JobState::Held);
        let all: Vec<JobId> = answers.iter().map(|answer| answer.id()).collect();
        db.operator.act(&Action::Cancel, &all, "ann").await.unwrap();
        assert_eq!(keys(&f).await, 0, "{name}");
    }
    // Several statements. Another job has one of the keys.
    let taken = f.client().await.answer(of("1200", RULE)).await.unwrap();
    let some: Vec<NewJob> = (1000..1300).map(|user| of(&user.to_string(), RULE)).collect();
    let answers = f.client().await.answers(some).await.unwrap();
    assert!(answers[200].is_existing() && answers[200] == taken.id());
    assert_eq!(answers.iter().filter(|answer| answer.is_new()).count(), 299);
    assert!(record(db, answers[201].id()).await.args.contains("\"1201\""));
    let refused = (999..1300).map(|user| of(&user.to_string(), RULE.on_conflict(OnConflict::Error))).collect();
    assert!(matches!(f.client().await.answers(refused).await, Err(EnqueueError::Exists { .. })));
    let all: Vec<JobId> = answers.iter().map(|answer| answer.id()).collect();
    db.operator.act(&Action::Cancel, &all, "ann").await.unwrap();
    assert_eq!(keys(&f).await, 0);
    let many: Vec<NewJob> = (0..2500).rev().map(|user| of(&user.to_string(), RULE)).collect();
    let answers = f.client().await.answers(many.clone()).await.unwrap();
    assert!(answers.len() == 2500 && answers.iter().all(|answer| answer.is_new()));
    let again = f.client().await.answers(many).await.unwrap();
    assert!(again.iter().zip(&answers).all(|(again, answer)| again.is_existing() && again.id() == answer.id()));
    assert!(record(db, answers[7].id()).await.args.contains("\"2492\""));
}

pub(crate) async fn without_by_all_arguments_are_the_key<F: Fixture>(f: F) {
    let rule = Unique::new();
    let job = |args: &str| NewJob::raw("a", args).unique(rule).unwrap();
    let first = answer(&f, job(r#"{"b": [1, {"d": "e", "c": null}], "a": true}"#)).await.id();
    assert!(answer(&f, job(r#"{"a":true,"b":[1,{"c":null,"d":"\u0065"}]}"#)).await == first);
    assert!(answer(&f, job(r#"{"a":true,"b":[1]}"#)).await.is_new());
    let newer = NewJob::raw("a.v2", r#"{"a":true,"b":[1]}"#).unique(rule).unwrap();
    assert!(answer(&f, newer).await.is_existing(), "versions share their keys");
    let other = NewJob::raw("b", r#"{"a":true,"b":[1]}"#).unique(rule).unwrap();
    assert!(answer(&f, other).await.is_new(), "kinds do not");
}

pub(crate) async fn a_debounced_job_has_the_newest_arguments<F: Fixture>(f: F) {
    let db = f.database();
    let minutes = |number: u32| number * MINUTE;
    let rule = Unique::debounce(minutes(10), minutes(15)).by(&["user"]);
    let first = answer(&f, with_note("x", "0", rule)).await;
    assert!(first.is_new() && state(db, first.id()).await == JobState::Scheduled);
    let waits = async || {
        let job = record(db, first.id()).await;
        (job.run_at - job.enqueued_at).num_milliseconds()
    };
    let before = waits().await;
    f.client().await.execute(&F::passed(minutes(1))).await.unwrap();
    let replaced = answer(&f, with_note("x", "1", rule)).await;
    assert!(replaced.is_replaced() && replaced == first.id());
    assert!(waits().await >= before + 60_000, "it waits anew");
    assert!(answer(&f, with_note("y", "other", rule)).await.is_new());
    // Eleven minutes after its enqueue it may wait for four more.
    f.client().await.execute(&F::passed(minutes(10))).await.unwrap();
    assert!(answer(&f, with_note("x", "2", rule)).await.is_replaced());
    assert_eq!(waits().await, 900_000);
    f.client().await.execute(&F::passed(minutes(15))).await.unwrap();
    let worker = worker_for(db, HOUR).await;
    let claimed = claim(db, worker, 9).await;
    let job = claimed.iter().find(|job| job.lease.job == first.id()).expect("it is due");
    assert!(String::from_utf8(job.args.clone()).unwrap().contains("\"2\""));
    assert!(answer(&f, with_note("x", "3", rule)).await.is_new(), "it has started");
}

/// A limit counts the jobs that are about to run. So a job that was admitted, and then got a later time, gives back
/// what it took.
pub(crate) async fn a_job_that_is_scheduled_again_takes_no_permit<F: Fixture>(f: F) {
    let db = f.database();
    let permits =
        async || f.client().await.number(&format!("select count(*) as number from {}", F::table("permit"))).await;
    let one = |limits: &[(&str, bool)], note: &str, rule: Unique| {
        limits.iter().fold(with_note(note, note, rule), |job, (name, is_sequence)| match is_sequence {
            true => job.rule(Sequence::new(*name)).unwrap(),
            false => job.rule(Limit::new(*name, 1)).unwrap(),
        })
    };
    let again = Unique::debounce(10 * MINUTE, HOUR).by(&["user"]);
    for (limits, rule, keeps) in [
        (&[("one", false)][..], again, 0),
        (&[("one", false)], REPLACE, 0),
        (&[("left", false), ("right", false)], again, 0),
        // It is still its turn.
        (&[("turns", true)], again, 1),
        (&[("turns", true), ("beside", false)], again, 1),
    ] {
        let first = answer(&f, one(limits, "x", rule)).await;
        let second = answer(&f, one(limits, "y", rule)).await;
        f.client().await.execute(&F::passed(11 * MINUTE)).await.unwrap();
        let mut admitted = 0;
        for _ in 0..3 {
            admitted += db.storage.admit(true).await.unwrap().admitted;
        }
        assert_eq!((admitted, state(db, first.id()).await), (1, JobState::Available), "{limits:?}");
        let mut later = one(limits, "x", rule);
        later.run_at = RunAt::After(MINUTE);
        assert!(answer(&f, later).await.is_replaced());
        assert_eq!(state(db, first.id()).await, JobState::Scheduled, "{limits:?}");
        assert_eq!(permits().await, keeps, "{limits:?}");
        let mut admitted = 0;
        for _ in 0..3 {
            admitted += admit(db).await;
        }
        assert_eq!(admitted, if keeps == 0 { 1 } else { 0 }, "{limits:?}");
        assert_eq!(state(db, second.id()).await == JobState::Available, keeps == 0, "{limits:?}");
        // When it is due, it waits for the other one, or is the next one.
        f.client().await.execute(&F::passed(11 * MINUTE)).await.unwrap();
        let mut admitted = 0;
        for _ in 0..3 {
            admitted += db.storage.admit(true).await.unwrap().admitted;
        }
        assert_eq!(admitted, if keeps == 0 { 0 } else { 1 }, "{limits:?}");
        for id in [first.id(), second.id()] {
            db.operator.cancel(id).await.unwrap();
        }
        assert_eq!(permits().await, 0, "{limits:?}");
    }
}

/// Races of many connections. SQLite lets them in one by one.
pub(crate) async fn one_of_many_rivals_wins<F: Fixture>(f: F) {
    for round in ["a", "b", "c"] {
        let mut rivals = Vec::new();
        for _ in 0..32 {
            rivals.push(f.client().await);
        }
        let race = rivals.iter_mut().map(async |client| {
            client.begin().await;
            let answer = client.answer(of(round, RULE)).await.unwrap();
            // The transaction is usable.
            client.answer(job()).await.unwrap();
            client.commit().await;
            answer
        });
        let answers = join_all(race).await;
        let winner = answers.iter().find(|answer| answer.is_new()).expect("one is new").id();
        assert_eq!(answers.iter().filter(|answer| answer.is_new()).count(), 1);
        assert!(answers.iter().all(|answer| answer.id() == winner));
    }
    assert_eq!((keys(&f).await, jobs(&f).await), (3, 3 + 3 * 32));
}

pub(crate) async fn bulks_with_the_same_keys_all_succeed<F: Fixture>(f: F) {
    let mut clients: Vec<Box<dyn Client>> = Vec::new();
    for _ in 0..4 {
        clients.push(f.client().await);
    }
    let order = |number: usize, place: usize| (place * [1, 7, 77, 601][number]) % 1200;
    let bulks = clients.iter_mut().enumerate().map(async |(number, client)| {
        let bulk = (0..1200).map(|place| of(&order(number, place).to_string(), RULE)).collect();
        client.answers(bulk).await.unwrap()
    });
    let answers = join_all(bulks).await;
    assert_eq!(answers.iter().flatten().filter(|answer| answer.is_new()).count(), 1200);
    assert_eq!((keys(&f).await, jobs(&f).await), (1200, 1200));
}
