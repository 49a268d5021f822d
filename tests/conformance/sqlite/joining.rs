//! The view of all jobs together with an application's own tables, in Diesel's joins and associations.

use diesel::connection::SimpleConnection as _;
use diesel::prelude::*;

use super::Sqlite;
use crate::bench::*;
use crate::fixture::{Port as _, run};

/// As in an application.
mod schema {
    diesel::table! {
        invoice (id) {
            id -> BigInt,
            job_id -> BigInt,
        }
    }

    diesel_jobs_storage::job_view!(sqlite);

    diesel::joinable!(invoice -> job (job_id));
    diesel::allow_tables_to_appear_in_same_query!(invoice, job);
}

use schema::{invoice, job as jobs};

#[derive(Debug, PartialEq, Queryable, Selectable, Identifiable)]
#[diesel(table_name = jobs, check_for_backend(diesel::sqlite::Sqlite))]
struct Job {
    id: i64,
    state: String,
    last_error: Option<String>,
}

#[derive(Debug, PartialEq, Queryable, Selectable, Identifiable, Associations)]
#[diesel(table_name = invoice, belongs_to(Job), check_for_backend(diesel::sqlite::Sqlite))]
struct Invoice {
    id: i64,
    job_id: i64,
}

#[test]
fn the_view_joins_with_an_applications_tables() {
    run::<Sqlite, _>(async |f: Sqlite| {
        let mut conn = f.connect();
        conn.batch_execute("create table invoice (id integer primary key, job_id integer not null)").unwrap();
        let db = f.database();
        let failed = claimed(&f, worker(db).await, job()).await;
        assert!(finish(db, &failed, retry_in(HOUR)).await);
        let waiting = enqueue(&f, later(HOUR)).await;
        conn.batch_execute(&format!("insert into invoice values (7, {}), (8, {waiting})", failed.lease.job)).unwrap();

        let rows: Vec<(i64, String, Option<String>)> = invoice::table
            .inner_join(jobs::table)
            .order(invoice::id)
            .select((invoice::id, jobs::state, jobs::last_error))
            .load(&mut conn)
            .unwrap();
        let error = Some("it did not work".to_owned());
        assert_eq!(rows, [(7, "retrying".to_owned(), error.clone()), (8, "scheduled".to_owned(), None)]);

        let found: Job = jobs::table.find(failed.lease.job.0).select(Job::as_select()).get_result(&mut conn).unwrap();
        assert_eq!((&*found.state, &found.last_error), ("retrying", &error));
        let invoices: Vec<Invoice> =
            Invoice::belonging_to(&found).select(Invoice::as_select()).load(&mut conn).unwrap();
        assert_eq!(invoices, [Invoice { id: 7, job_id: failed.lease.job.0 }]);
    });
}

#[derive(QueryableByName)]
struct Step {
    #[diesel(sql_type = diesel::sql_types::Text)]
    detail: String,
}

#[test]
fn a_job_is_found_by_its_key_without_a_scan() {
    run::<Sqlite, _>(async |f: Sqlite| {
        let mut conn = f.connect();
        conn.batch_execute("create table invoice (id integer primary key, job_id integer not null)").unwrap();
        for sql in [
            "select * from jobs_job_view where id = 1",
            "select * from jobs_job_view where id in (1, 2)",
            "select * from invoice join jobs_job_view job on job.id = invoice.job_id where invoice.id = 1",
            "update jobs_job set state = 'cancelled' where id = 1",
        ] {
            let steps: Vec<Step> = diesel::sql_query(format!("explain query plan {sql}")).load(&mut conn).unwrap();
            let steps: Vec<String> = steps.into_iter().map(|step| step.detail).collect();
            let is_by_key = steps.iter().any(|step| step.starts_with("SEARCH jobs_job USING INTEGER PRIMARY KEY"));
            assert!(is_by_key && !steps.iter().any(|step| step.starts_with("SCAN")), "{sql}: {steps:?}");
        }
    });
}
