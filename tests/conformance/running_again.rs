//! Unique jobs that run again: an enqueue while the job with the key runs inserts one more job, which starts after that
//! one has ended.

use std::time::Duration;

use diesel_jobs_core::storage::{Action, Operated};
use diesel_jobs_core::{Enqueued, Finish, JobId, JobState, NewJob, OnConflict, Transition, Unique};

use crate::bench::*;
use crate::client::Client;
use crate::fixture::Fixture;
use crate::limiting::admit;
use crate::unique::keys;

const RULE: Unique = Unique::new().by(&["user"]).on_conflict(OnConflict::RunAgain);

fn of(user: &str, note: &str) -> NewJob {
    let args = serde_json::json!({ "user": user, "note": note });
    NewJob::raw("a", args.to_string()).unique(RULE).unwrap()
}

async fn answer(client: &mut Box<dyn Client>, user: &str, note: &str) -> Enqueued {
    client.answer(of(user, note)).await.unwrap()
}

async fn note_of<F: Fixture>(f: &F, id: JobId) -> String {
    let args: serde_json::Value = serde_json::from_str(&record(f.database(), id).await.args).unwrap();
    args["note"].as_str().unwrap().to_owned()
}

/// The jobs that are claimed after a pass of admission.
async fn start<F: Fixture>(f: &F, worker: diesel_jobs_core::WorkerId) -> Vec<diesel_jobs_core::ClaimedJob> {
    admit(f.database()).await;
    claim(f.database(), worker, 9).await
}

pub(crate) async fn a_job_runs_again_after_the_running_one<F: Fixture>(f: F) {
    let db = f.database();
    let worker = worker(db).await;
    for (name, mut client) in f.clients().await {
        let first = answer(&mut client, name, "1").await;
        assert!(first.is_new(), "{name}");
        let replaced = answer(&mut client, name, "2").await;
        assert!(replaced.is_replaced() && replaced == first.id(), "{name}: it is held");
        assert_eq!(admit(db).await, 1);
        let replaced = answer(&mut client, name, "3").await;
        assert!(replaced.is_replaced() && replaced == first.id(), "{name}: it is available");
        let running = start(&f, worker).await;
        assert_eq!((ids(&running), note_of(&f, first.id()).await), (vec![first.id()], "3".to_owned()));

        let second = answer(&mut client, name, "4").await;
        assert!(second.is_new() && second != first.id(), "{name}: {second:?}");
        let replaced = answer(&mut client, name, "5").await;
        assert!(replaced.is_replaced() && replaced == second.id(), "{name}: {replaced:?}");
        assert!(start(&f, worker).await.is_empty(), "{name}: the first one runs");
        assert_eq!(state(db, second.id()).await, JobState::Held);
        let why = db.operator.why(second.id()).await.unwrap();
        assert!(why.reasons[0].text.contains(&format!("job {first} has not ended")), "{:?}", why.reasons);
        // A retry is no end.
        assert!(finish(db, &running[0], retry_in(Duration::ZERO)).await);
        let running = start(&f, worker).await;
        assert_eq!(ids(&running), [first.id()]);
        assert_eq!(note_of(&f, first.id()).await, "3", "the later arguments are those of the second job");
        let replaced = answer(&mut client, name, "6").await;
        assert!(replaced.is_replaced() && replaced == second.id(), "{name}: {replaced:?}");
        assert!(finish(db, &running[0], DONE).await);
        let running = start(&f, worker).await;
        assert_eq!((ids(&running), note_of(&f, second.id()).await), (vec![second.id()], "6".to_owned()));
        let third = answer(&mut client, name, "7").await;
        assert!(third.is_new(), "{name}: {third:?}");
        // A discarded job stops none.
        assert!(finish(db, &running[0], discard()).await);
        let running = start(&f, worker).await;
        assert_eq!(ids(&running), [third.id()]);
        assert!(finish(db, &running[0], DONE).await);
        assert_eq!(keys(&f).await, 0, "{name}");
    }
}

pub(crate) async fn a_waiting_retry_gets_the_arguments<F: Fixture>(f: F) {
    let db = f.database();
    let worker = worker(db).await;
    let mut client = f.client().await;
    let first = answer(&mut client, "x", "1").await;
    let running = start(&f, worker).await;
    assert!(finish(db, &running[0], retry_in(Duration::ZERO)).await);
    let replaced = answer(&mut client, "x", "2").await;
    assert!(replaced.is_replaced() && replaced == first.id());
    let running = start(&f, worker).await;
    assert_eq!((ids(&running), note_of(&f, first.id()).await), (vec![first.id()], "2".to_owned()));
}

pub(crate) async fn a_job_that_runs_again_survives_its_worker<F: Fixture>(f: F) {
    let db = f.database();
    let dead = mortal(db).await;
    let mut client = f.client().await;
    let first = answer(&mut client, "x", "1").await;
    assert_eq!(ids(&start(&f, dead).await), [first.id()]);
    let second = answer(&mut client, "x", "2").await;
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert_eq!(rescue(db, POLICY).await.returned, [first.id()]);
    let worker = worker(db).await;
    let running = start(&f, worker).await;
    assert_eq!(ids(&running), [first.id()], "the second one waits for the rescued one");
    let cancelled = Finish::new(&running[0], cancel());
    assert_eq!(db.storage.finish_all(&[cancelled]).await.unwrap().len(), 1);
    assert_eq!(ids(&start(&f, worker).await), [second.id()]);
}

pub(crate) async fn a_cancelled_follower_leaves_the_key_free<F: Fixture>(f: F) {
    let db = f.database();
    let worker = worker(db).await;
    let mut client = f.client().await;
    let first = answer(&mut client, "x", "1").await;
    let running = start(&f, worker).await;
    let second = answer(&mut client, "x", "2").await;
    assert_eq!(db.operator.act(&Action::Cancel, &[second.id()], "ann").await.unwrap(), [Operated::Done]);
    assert_eq!(keys(&f).await, 0);
    // The first job has no key any more. The next one waits for it nevertheless.
    let third = answer(&mut client, "x", "3").await;
    assert!(third.is_new() && third != first.id());
    assert!(start(&f, worker).await.is_empty());
    assert!(finish(db, &running[0], Transition::Snooze(Duration::ZERO)).await);
    let running = start(&f, worker).await;
    assert_eq!(ids(&running), [first.id()]);
    assert!(finish(db, &running[0], DONE).await);
    assert_eq!(ids(&start(&f, worker).await), [third.id()]);
}

pub(crate) async fn a_bulk_has_one_follower_of_each_key<F: Fixture>(f: F) {
    let worker = worker(f.database()).await;
    for (name, mut client) in f.clients().await {
        let first = answer(&mut client, name, "1").await;
        assert_eq!(ids(&start(&f, worker).await), [first.id()]);
        let new = format!("{name} too");
        let answers = client.answers(vec![of(name, "2"), of(&new, "3"), of(name, "4")]).await.unwrap();
        assert!(answers[0].is_new() && answers[0] != first.id() && answers[1].is_new(), "{name}: {answers:?}");
        assert!(answers[2].is_replaced() && answers[2] == answers[0].id(), "{name}: {answers:?}");
        assert_eq!(note_of(&f, answers[0].id()).await, "4");
        let started = start(&f, worker).await;
        assert_eq!(ids(&started), [answers[1].id()], "{name}");
        let again = client.answers(vec![of(name, "5"), of(&new, "6")]).await.unwrap();
        assert!(again[0].is_replaced() && again[0] == answers[0].id() && again[1].is_new(), "{name}: {again:?}");
    }
}
