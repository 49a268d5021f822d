//! `create publication .. for all tables`, with which change data capture and migrations between servers begin.
//! PostgreSQL refuses deletes from a published table without a replica identity.

use std::time::Duration;

use diesel_async::{AsyncConnection as _, AsyncPgConnection, SimpleAsyncConnection as _};
use diesel_jobs_core::storage::Operated;
use diesel_jobs_core::{Finish, Keep, Transition};

use super::Postgres;
use crate::bench::*;
use crate::fixture::{Fixture, Port as _, run};

#[test]
fn a_publication_of_all_tables_stops_nothing() {
    run::<Postgres, _>(async |f: Postgres| {
        let mut owner = AsyncPgConnection::establish(&f.url).await.unwrap();
        owner.batch_execute("create publication everything for all tables").await.unwrap();
        let db = f.database();
        let large = diesel_jobs_core::NewJob::raw("a", format!("\"{}\"", "x".repeat(5000)));
        let (mortal, worker) = (mortal(db).await, worker(db).await);
        claimed(&f, mortal, job()).await;
        assert_eq!(rescue(db, POLICY).await.returned.len(), 1);
        enqueue_all(&f, vec![large, job(), job(), job(), job(), job()]).await;
        let jobs = claim(db, worker, 10).await;
        assert_eq!(jobs.len(), 7);
        let expired = Keep::For(Duration::ZERO);
        let ends = [
            DONE,
            Transition::Complete(expired),
            Transition::Complete(Keep::Nothing),
            Transition::Discard { failure: failure("no"), keep: expired },
            discard(),
            Transition::Snooze(HOUR),
            retry_in(HOUR),
        ];
        let finishes: Vec<Finish> =
            jobs.iter().zip(ends).map(|(job, transition)| Finish::new(job, transition)).collect();
        assert_eq!(db.storage.finish_all(&finishes).await.unwrap().len(), 7);
        tokio::time::sleep(Duration::from_millis(5)).await;
        assert_eq!(db.storage.prune(10).await.unwrap(), 2);
        assert_eq!(db.operator.retry(jobs[4].lease.job).await.unwrap(), Operated::Done);
        assert_eq!(db.operator.cancel(jobs[5].lease.job).await.unwrap(), Operated::Done);
        db.storage.deregister(worker).await.unwrap();
    });
}

/// With `replica identity full` a subscriber compares whole rows. It stops at the first column of type json, which
/// cannot be compared.
#[test]
fn every_table_has_a_key_to_be_replicated_by() {
    run::<Postgres, _>(async |f: Postgres| {
        let without = "select count(*) as number from pg_class c
            where relnamespace = 'jobs'::regnamespace and relkind = 'r'
              -- A table without json may be compared by whole rows.
              and not (relreplident = 'f' and not exists (select from pg_attribute where attrelid = c.oid and atttypid = 'json'::regtype))
              and not exists (select from pg_index where indrelid = c.oid
                              and (relreplident = 'd' and indisprimary or relreplident = 'i' and indisreplident))";
        assert_eq!(f.client().await.number(without).await, 0);
    });
}
