//! The view of all jobs together with an application's own tables, in Diesel's joins and associations.

use chrono::{DateTime, Utc};
use diesel::prelude::*;
use diesel_async::{AsyncConnection as _, AsyncPgConnection, RunQueryDsl, SimpleAsyncConnection as _};

use super::Postgres;
use crate::bench::*;
use crate::fixture::{Fixture, Port as _, run};

/// As in an application.
mod schema {
    diesel::table! {
        invoice (id) {
            id -> BigInt,
            job_id -> BigInt,
        }
    }

    diesel_jobs_storage::job_view!(postgres);

    diesel::joinable!(invoice -> job (job_id));
    diesel::allow_tables_to_appear_in_same_query!(invoice, job);
}

use schema::{invoice, job as jobs};

#[derive(Debug, PartialEq, Queryable, Selectable, Identifiable)]
#[diesel(table_name = jobs, check_for_backend(diesel::pg::Pg))]
struct Job {
    id: i64,
    state: String,
    last_error: Option<String>,
    run_at: DateTime<Utc>,
}

#[derive(Debug, PartialEq, Queryable, Selectable, Identifiable, Associations)]
#[diesel(table_name = invoice, belongs_to(Job), check_for_backend(diesel::pg::Pg))]
struct Invoice {
    id: i64,
    job_id: i64,
}

#[test]
fn the_view_joins_with_an_applications_tables() {
    run::<Postgres, _>(async |f: Postgres| {
        let mut conn = AsyncPgConnection::establish(&f.url).await.unwrap();
        conn.batch_execute("create table invoice (id bigint primary key, job_id bigint not null)").await.unwrap();
        let db = f.database();
        let failed = claimed(&f, worker(db).await, job()).await;
        assert!(finish(db, &failed, retry_in(HOUR)).await);
        let waiting = enqueue(&f, later(HOUR)).await;
        conn.batch_execute(&format!("insert into invoice values (7, {}), (8, {waiting})", failed.lease.job))
            .await
            .unwrap();

        let rows: Vec<(i64, String, Option<String>)> = RunQueryDsl::load(
            invoice::table.inner_join(jobs::table).order(invoice::id).select((
                invoice::id,
                jobs::state,
                jobs::last_error,
            )),
            &mut conn,
        )
        .await
        .unwrap();
        let error = Some("it did not work".to_owned());
        assert_eq!(rows, [(7, "retrying".to_owned(), error.clone()), (8, "scheduled".to_owned(), None)]);

        let found = jobs::table.find(failed.lease.job.0).select(Job::as_select());
        let found: Job = RunQueryDsl::get_result(found, &mut conn).await.unwrap();
        assert_eq!((&*found.state, &found.last_error), ("retrying", &error));
        let invoices = Invoice::belonging_to(&found).select(Invoice::as_select());
        let invoices: Vec<Invoice> = RunQueryDsl::load(invoices, &mut conn).await.unwrap();
        assert_eq!(invoices, [Invoice { id: 7, job_id: failed.lease.job.0 }]);
    });
}

#[test]
fn every_column_of_the_view_has_a_comment() {
    run::<Postgres, _>(async |f: Postgres| {
        let silent = "select count(*) as number from pg_attribute
            where attrelid = 'jobs.job'::regclass and col_description(attrelid, attnum) is null";
        assert_eq!(f.client().await.number(silent).await, 0);
    });
}
