//! Enqueues in a transaction whose snapshot is older than the job of another transaction: `repeatable read` and
//! `serializable` on PostgreSQL, and on SQLite a transaction that reads before it writes.

use diesel_jobs_core::{Limit, NewJob, OnConflict, Replace, Unique, Until};
use diesel_jobs_storage::EnqueueError;

use crate::bench::*;
use crate::client::Client;
use crate::fixture::Fixture;
use crate::limiting::admit;

const RULE: Unique = Unique::new().by(&["user"]);

fn of(user: &str, rule: Unique) -> NewJob {
    NewJob::raw("a", format!(r#"{{"user":"{user}"}}"#)).unique(rule).unwrap()
}

fn is_postgres<F: Fixture>() -> bool {
    F::TABLES.contains(&"ready")
}

/// The statements that choose how the transactions are isolated, if there is a choice.
fn isolations<F: Fixture>() -> &'static [&'static str] {
    match is_postgres::<F>() {
        true => &["set transaction isolation level repeatable read", "set transaction isolation level serializable"],
        false => &["select 1"],
    }
}

/// Begins a transaction, and its snapshot.
async fn begin<F: Fixture>(client: &mut dyn Client, isolation: &str) {
    client.begin().await;
    client.execute(isolation).await.unwrap();
    client.number(&format!("select count(*) as number from {}", F::VIEW)).await;
}

fn assert_is_to_be_repeated(refused: &EnqueueError, form: &str) {
    assert!(refused.is_retryable() && !refused.is_conflict(), "{form}: {refused:?}");
    assert!(refused.to_string().contains("roll this transaction back and repeat all of it"), "{form}: {refused}");
}

/// Each form of a unique job: a name, and the jobs of one enqueue.
fn forms(key: &str) -> Vec<(String, Vec<NewJob>)> {
    let replace = RULE.on_conflict(OnConflict::Replace(Replace::new().args().run_at().priority()));
    let limited = of(&format!("{key} limited"), RULE).rule(Limit::new("stripe", 5)).unwrap();
    let mut expiring = of(&format!("{key} expiring"), RULE);
    expiring.expires = Some(HOUR);
    let alike = ["alike 1", "alike 2"].map(|number| of(&format!("{key} {number}"), RULE)).to_vec();
    let mixed = vec![job(), of(&format!("{key} mixed"), RULE), of(&format!("{key} mixed 2"), replace)];
    let mut forms = vec![("limited", vec![limited]), ("expiring", vec![expiring]), ("alike", alike), ("mixed", mixed)];
    for (name, rule) in [
        ("keep", RULE),
        ("started", RULE.until(Until::Started)),
        ("error", RULE.on_conflict(OnConflict::Error)),
        ("within", RULE.within(HOUR)),
        ("replace", replace),
        ("run again", RULE.on_conflict(OnConflict::RunAgain)),
        ("debounce", Unique::debounce(MINUTE, HOUR).by(&["user"])),
    ] {
        forms.push((name, vec![of(&format!("{key} {name}"), rule)]));
    }
    forms.into_iter().map(|(name, jobs)| (format!("{key} {name}"), jobs)).collect()
}

async fn enqueue_form(
    client: &mut dyn Client,
    jobs: Vec<NewJob>,
) -> Result<Vec<diesel_jobs_core::Enqueued>, EnqueueError> {
    match <[NewJob; 1]>::try_from(jobs) {
        Ok([job]) => Ok(vec![client.answer(job).await?]),
        Err(jobs) => client.answers(jobs).await,
    }
}

pub(crate) async fn a_transaction_that_cannot_see_the_job_with_the_key_is_to_be_repeated<F: Fixture>(f: F) {
    for isolation in isolations::<F>() {
        for (name, mut client) in f.clients().await {
            for (form, jobs) in forms(&format!("{name} {isolation}")) {
                begin::<F>(&mut *client, isolation).await;
                let first = enqueue_form(&mut *f.client().await, jobs.clone()).await.unwrap();
                let refused = enqueue_form(&mut *client, jobs.clone()).await.unwrap_err();
                assert_is_to_be_repeated(&refused, &form);
                client.rollback().await;
                // As the error says: the same transaction again.
                begin::<F>(&mut *client, isolation).await;
                match enqueue_form(&mut *client, jobs.clone()).await {
                    Err(EnqueueError::Exists { id, .. }) => {
                        assert_eq!((id, form.ends_with("error")), (first[0].id(), true))
                    }
                    again => {
                        for ((again, first), job) in again.unwrap().iter().zip(&first).zip(&jobs) {
                            assert_eq!(
                                (again.is_new(), again.id() == first.id()),
                                match job.unique {
                                    Some(_) => (false, true),
                                    None => (true, false),
                                },
                                "{form}"
                            );
                        }
                    }
                }
                client.commit().await;
            }
        }
    }
}

/// A job that changes after the snapshot: it starts, or another transaction replaces it.
pub(crate) async fn a_transaction_that_sees_an_older_state_of_the_job_is_to_be_repeated<F: Fixture>(f: F) {
    let db = f.database();
    let worker = worker(db).await;
    let replace = RULE.on_conflict(OnConflict::Replace(Replace::new().args()));
    for isolation in isolations::<F>() {
        for rule in [RULE.until(Until::Started), replace, RULE.on_conflict(OnConflict::RunAgain)] {
            let mut client = f.client().await;
            let first = client.answer(of("x", rule)).await.unwrap();
            begin::<F>(&mut *client, isolation).await;
            admit(db).await;
            let claimed = claim(db, worker, 9).await;
            assert!(ids(&claimed).contains(&first.id()));
            let refused = client.answer(of("x", rule)).await.unwrap_err();
            assert_is_to_be_repeated(&refused, isolation);
            client.rollback().await;
            for one in claimed {
                assert!(finish(db, &one, DONE).await);
            }
            assert!(client.answer(of("x", rule)).await.unwrap().is_new());
            admit(db).await;
            for one in claim(db, worker, 9).await {
                assert!(finish(db, &one, DONE).await);
            }
        }
    }
}

/// Only SQLite, which has one writer, refuses these to a transaction that has begun to read.
pub(crate) async fn jobs_without_a_key_meet_nobody<F: Fixture>(f: F) {
    let limited =
        |number: u8| NewJob::raw("a", format!(r#"{{"user":{number}}}"#)).rule(Limit::new("stripe", 1)).unwrap();
    for isolation in isolations::<F>() {
        for (name, mut client) in f.clients().await {
            for jobs in [vec![job()], vec![limited(1)], vec![job(); 3], vec![job(), limited(2)]] {
                begin::<F>(&mut *client, isolation).await;
                enqueue_form(&mut *f.client().await, jobs.clone()).await.unwrap();
                let enqueued = enqueue_form(&mut *client, jobs).await;
                match is_postgres::<F>() {
                    true => {
                        assert!(enqueued.unwrap().iter().all(|one| one.is_new()), "{name}");
                        client.commit().await;
                    }
                    false => {
                        assert_is_to_be_repeated(&enqueued.unwrap_err(), name);
                        client.rollback().await;
                    }
                }
            }
        }
    }
}
