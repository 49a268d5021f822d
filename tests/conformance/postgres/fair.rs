//! Tenants, on PostgreSQL alone: what SQL enqueues and refuses, and what a person may have stored.

use diesel_jobs_core::{JobState, Limit};

use super::Postgres;
use crate::bench::*;
use crate::fair::of;
use crate::fixture::{Fixture as _, Port as _, run};
use crate::limiting::admit;

#[test]
fn sql_and_rust_make_the_same_tenant() {
    run::<Postgres, _>(async |f: Postgres| {
        let mut client = f.client().await;
        let long = "x".repeat(300);
        let args = format!(r#"{{"n": 7, "s": "é\" \u0031", "b": true, "z": null, "long": "{long}"}}"#);
        for (sql, limit) in [
            ("fair_by => '{n}'", Limit::new("a", 2).fair_by(7)),
            ("fair_by => '{n,b,z}'", Limit::new("a", 2).fair_by(7).fair_by(true).fair_by(())),
            ("fair_by => '{s}', by => '{n}', limit_name => 'r'", Limit::new("r", 2).key(7).fair_by("é\" 1")),
            ("fair_by => '{long}', expires => '1 hour'", Limit::new("a", 2).fair_by(&*long)),
            ("fair_by => '{n}', unique_by => '{n}'", Limit::new("a", 2).fair_by(7)),
        ] {
            let id =
                client.number(&format!("select jobs.enqueue('a', '{args}', concurrency => 2, {sql}) as number")).await;
            let ours = job().rule(limit).unwrap().rules.to_json().unwrap();
            let same = format!(
                "select count(*) as number from jobs.held where id = {id} and rules::jsonb = $f${ours}$f$::jsonb and flags & 269 = 257 and most = 2"
            );
            assert_eq!(client.number(&same).await, 1, "{sql}: {ours}");
        }
        assert_eq!(admit(f.database()).await, 3);
    });
}

#[test]
fn sql_refuses_tenants_without_one_limit() {
    run::<Postgres, _>(async |f: Postgres| {
        let mut client = f.client().await;
        for (arguments, problem) in [
            ("fair_by => '{n}'", "needs `concurrency`"),
            ("fair_by => '{n}', limits => '[]'", "needs `concurrency`"),
            ("fair_by => '{}', concurrency => 2", "names at least one argument"),
            ("fair_by => '{x}', concurrency => 2", "which job a does not have"),
            ("fair_by => '{f}', concurrency => 2", "exponent beyond 1000"),
            ("fair_by => '{n}', rate => 2, per => '1s'", "no other rule"),
            ("fair_by => '{n}', sequence => 'halt'", "no other rule"),
            ("fair_by => '{n}', concurrency => 2, on_full => 'discard'", "does not wait"),
            (
                r#"fair_by => '{n}', concurrency => 2, limits => '[{"concurrency": 2, "limit_name": "b"}]'"#,
                "no other rule",
            ),
            ("fair_by => '{n}', unique_by => '{n}', on_conflict => 'run_again'", "needs `concurrency`"),
            (
                "fair_by => '{n}', unique_by => '{n}', on_conflict => 'run_again', concurrency => 2",
                "which makes a sequence",
            ),
        ] {
            let sql = format!(r#"select jobs.enqueue('a', '{{"n": 7, "f": 1e5000}}', {arguments})"#);
            let refused = client.execute(&sql).await.unwrap_err().to_string();
            assert!(refused.contains(problem), "{arguments}: {refused}");
        }
        assert_eq!(client.number("select count(*) as number from jobs.held").await, 0);
    });
}

#[test]
fn a_job_that_is_put_back_keeps_its_tenant() {
    run::<Postgres, _>(async |f: Postgres| {
        let mut client = f.client().await;
        let ids = enqueue_all(&f, vec![of('a', 2); 2]).await;
        client
            .execute(&format!("select jobs.set_held_apart(ctid, 'x') from jobs.held where id = {}", ids[0]))
            .await
            .unwrap();
        client.execute("select jobs.put_back(number) from jobs.dead_letter").await.unwrap();
        let alike = "select count(*) as number from jobs.held where flags = 257 and rules #>> '{0,tenant}' = '[\"a\"]'";
        assert_eq!(client.number(alike).await, 2);
    });
}

#[test]
fn a_locked_job_of_a_tenant_delays_no_other_tenant() {
    run::<Postgres, _>(async |f: Postgres| {
        let db = f.database();
        let ids = enqueue_all(&f, vec![of('a', 2), of('a', 2), of('b', 2)]).await;
        let mut other = f.client().await;
        other.begin().await;
        other.execute(&format!("select from jobs.held where id = {} for update", ids[0])).await.unwrap();
        assert_eq!(admit(db).await, 1);
        assert_eq!(state(db, ids[2]).await, JobState::Available);
        other.rollback().await;
        assert_eq!(db.storage.admit(true).await.unwrap().admitted, 1, "a sweep takes it");
        assert_eq!(state(db, ids[0]).await, JobState::Available);
    });
}

#[test]
fn a_job_without_the_tenant_that_its_flag_promises_is_admitted() {
    run::<Postgres, _>(async |f: Postgres| {
        let mut client = f.client().await;
        for tenant in ["null", "\"\"", "7", "{}"] {
            let insert = format!(
                "insert into jobs.held (kind, args, flags, most, limit_name, limit_key, rules)
                 values ('a', '{{}}', 257, 1, 'api', '{tenant}', '{{\"limit\": \"api\", \"key\": \"[]\", \"most\": 1, \"fair\": {tenant}}}');
                 insert into jobs.nudge (limit_name, limit_key) values ('api', '{tenant}')"
            );
            client.execute(&insert).await.unwrap();
            assert_eq!(admit(f.database()).await, 1, "{tenant}");
        }
    });
}

/// A pass reads each of the next tenants by one probe, and not the jobs behind the first ones.
#[test]
fn a_pass_reads_few_jobs_however_many_wait() {
    run::<Postgres, _>(async |f: Postgres| {
        let mut client = f.client().await;
        client
            .execute(
                "insert into jobs.held (kind, args, flags, most, limit_name, limit_key, rules)
                 select 'a', '{}', 257, 5, 'reports', '[]', ('[{\"name\":\"reports\",\"key\":\"[]\",\"rule\":{\"concurrency\":{\"most\":5}},\"tenant\":\"[' || n % 400 || ']\"}]')::json
                 from generate_series(1, 20000) n;
                 analyze jobs.held",
            )
            .await
            .unwrap();
        let read = "select (idx_tup_fetch + seq_tup_read)::bigint as number from pg_stat_xact_user_tables where relname = 'held'";
        client.begin().await;
        client.execute("insert into jobs.nudge (limit_name, limit_key) values ('reports', '[]')").await.unwrap();
        assert_eq!(client.number("select admitted as number from jobs.admit(false)").await, 5);
        let rows = client.number(read).await;
        assert!(rows < 200, "{rows} rows");
        client.rollback().await;
    });
}
