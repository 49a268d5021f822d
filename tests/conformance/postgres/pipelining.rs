//! Enqueueing through shared references to one connection.

use diesel_async::{AsyncConnection as _, AsyncPgConnection, RunQueryDsl};
use diesel_jobs_core::NewJob;
use diesel_jobs_storage::{Enqueue as _, EnqueueError};

use super::Postgres;
use crate::bench::job;
use crate::fixture::run;

/// Enqueues two jobs at once.
async fn both(conn: &AsyncPgConnection) -> Result<[i64; 2], EnqueueError> {
    let (mut one, mut other) = (conn, conn);
    let (one, other) = futures_util::try_join!(job().enqueue(&mut one), job().enqueue(&mut other))?;
    Ok([one.0, other.0])
}

async fn count(conn: &mut AsyncPgConnection) -> i64 {
    let jobs = diesel::dsl::sql::<diesel::sql_types::BigInt>("select count(*) from jobs.job");
    RunQueryDsl::get_result(jobs, conn).await.unwrap()
}

#[test]
fn a_shared_connection_enqueues() {
    run::<Postgres, _>(async |f: Postgres| {
        let mut conn = AsyncPgConnection::establish(&f.url).await.unwrap();
        let [one, other] = both(&conn).await.unwrap();
        assert!(one < other, "{one} {other}");
        let jobs: Vec<NewJob> = (0..2500).map(|_| job()).collect();
        let bulk = diesel_jobs_storage::enqueue_all(&mut &conn, jobs).await.unwrap();
        assert!(bulk.len() == 2500 && bulk.is_sorted());
        let none = diesel_jobs_storage::enqueue_all(&mut &conn, Vec::<NewJob>::new()).await.unwrap();
        assert_eq!((none.len(), count(&mut conn).await), (0, 2502));

        let rolled_back: Result<(), EnqueueError> = conn
            .transaction(async |conn| {
                both(conn).await?;
                Err(diesel::result::Error::RollbackTransaction.into())
            })
            .await;
        assert!(rolled_back.is_err());
        assert_eq!(count(&mut conn).await, 2502);
    });
}
