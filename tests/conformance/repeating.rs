//! Requests that arrive twice: what was done with a key is not done again, even if two processes are asked at the same
//! time.

use diesel_jobs_core::storage::{
    Action, AuditRecord, JobFilter, NewSchedule, Once, Operated, OperationId, RequestKey, STEP, Scheduled, ScheduledJob,
};
use diesel_jobs_core::{CatchUp, JobId, StorageError};
use diesel_jobs_storage::Database;
use serde_json::json;

use crate::bench::*;
use crate::fixture::Fixture;

async fn key(db: &Database) -> RequestKey {
    let key = db.operator.request_key().await.unwrap();
    // It goes through a form.
    key.to_string().parse().unwrap()
}

async fn jobs(db: &Database) -> u64 {
    db.operator.count(&JobFilter::default()).await.unwrap().jobs
}

/// An ended job.
async fn ended<F: Fixture>(f: &F) -> JobId {
    let worker = worker(f.database()).await;
    let job = claimed(f, worker, job()).await;
    assert!(finish(f.database(), &job, DONE).await);
    job.lease.job
}

fn before<T>(answer: Once<T>) -> AuditRecord {
    match answer {
        Once::Before(entry) => entry,
        Once::Now(_) => panic!("it was done again"),
    }
}

pub(crate) async fn jobs_are_enqueued_anew_once_for_a_key<F: Fixture>(f: F) {
    let db = f.database();
    let id = ended(&f).await;
    let (one, other) = (key(db).await, key(db).await);
    let rerun =
        async |key: &RequestKey, actor: &str| db.operator.act_once(key, &Action::Rerun, &[id], actor).await.unwrap();
    let Once::Now(answers) = rerun(&one, "ann").await else { panic!("nothing was done before") };
    let [Operated::Enqueued(new)] = answers[..] else { panic!("{answers:?}") };
    let entry = before(rerun(&one, "bert").await);
    assert_eq!((&*entry.actor, &*entry.action, entry.target), ("ann", "rerun", format!("job {id}")));
    let detail = entry.detail.unwrap();
    assert_eq!((&detail["ids"], &detail["enqueued"]), (&json!([id.0]), &json!([new.0])));
    assert_eq!(jobs(db).await, 2);
    // Another request is another one.
    assert!(matches!(rerun(&other, "bert").await, Once::Now(_)));
    assert_eq!((jobs(db).await, db.operator.audit(None, 9).await.unwrap().len()), (3, 2));
    // A request that changed nothing may be repeated.
    let (last, waiting) = (key(db).await, enqueue(&f, job()).await);
    for _ in 0..2 {
        let answer = db.operator.act_once(&last, &Action::Rerun, &[waiting], "ann").await.unwrap();
        assert!(matches!(answer, Once::Now(answers) if matches!(answers[..], [Operated::Refused(_)])));
    }
    let many = vec![id; STEP + 1];
    let refused = db.operator.act_once(&last, &Action::Rerun, &many, "ann").await;
    assert!(matches!(refused, Err(StorageError::Config(_))), "{refused:?}");
}

/// A double click on a form that two processes serve.
pub(crate) async fn of_requests_with_one_key_at_the_same_time_one_is_done<F: Fixture>(f: F) {
    let (db, other) = (f.database(), f.again().await);
    let id = ended(&f).await;
    for round in 1..=20 {
        let key = key(db).await;
        let ids = [id];
        let rerun = |db: &Database| {
            let operator = db.operator.clone();
            async move { operator.act_once(&key, &Action::Rerun, &ids, "ann").await.unwrap() }
        };
        let (one, two) = tokio::join!(rerun(db), rerun(&other));
        let done = [one, two].into_iter().filter(|answer| matches!(answer, Once::Now(_))).count();
        assert_eq!((done, jobs(db).await), (1, 1 + round));
    }
}

pub(crate) async fn an_operation_starts_once_for_a_key<F: Fixture>(f: F) {
    let db = f.database();
    ended(&f).await;
    let key = key(db).await;
    let start = async |filter: &str| {
        let filter: JobFilter = filter.parse().unwrap();
        db.operator.start_operation_once(&key, &Action::Rerun, &filter, "ann").await.unwrap()
    };
    assert_eq!(start("kind:a").await, Once::Now(OperationId(1)));
    assert_eq!(before(start("").await).target, "operation 1");
    assert_eq!(db.operator.operations(None, 9).await.unwrap().len(), 1);
}

pub(crate) async fn jobs_of_a_schedule_are_enqueued_once_for_a_key<F: Fixture>(f: F) {
    let db = f.database();
    let schedule = NewSchedule {
        name: "nightly".to_owned(),
        kind: "a".to_owned(),
        expression: "0 0 2 * * *".to_owned(),
        timezone: "UTC".to_owned(),
        catch_up: CatchUp::Skip,
        job: ScheduledJob::default(),
    };
    assert_eq!(db.operator.add_schedule(&schedule, "ann").await.unwrap(), Scheduled::Done);
    let key = key(db).await;
    let trigger =
        async |name: &str| db.operator.enqueue_for_schedule_once(&key, name, &[job()], "trigger", "ann").await.unwrap();
    // There is no such schedule, so nothing was done.
    assert_eq!(trigger("weekly").await, Once::Now(Scheduled::NotFound));
    assert_eq!(trigger("nightly").await, Once::Now(Scheduled::Done));
    assert_eq!(before(trigger("nightly").await).target, "schedule nightly");
    assert_eq!(jobs(db).await, 1);
}
