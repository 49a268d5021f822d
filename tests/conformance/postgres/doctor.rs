//! `doctor` on PostgreSQL: faults that only a server has.

use std::time::Duration;

use diesel_async::{AsyncConnection as _, AsyncPgConnection, SimpleAsyncConnection as _};
use diesel_jobs_core::storage::{Objectives, Severity};

use super::Postgres;
use crate::bench::{enqueue_all, job, worker};
use crate::examining::{found, none, repair};
use crate::fixture::{Fixture, Port as _, open, run};

async fn owner(f: &Postgres) -> AsyncPgConnection {
    AsyncPgConnection::establish(&f.url).await.unwrap()
}

/// Plants a fault with SQL, and runs the repair.
async fn plant(f: &Postgres, sql: &str, check: &str) {
    none(f.database(), check).await;
    owner(f).await.batch_execute(sql).await.unwrap();
    repair(f, check).await;
}

#[test]
fn faults_of_tables_are_named_and_repaired() {
    run::<Postgres, _>(async |f: Postgres| {
        worker(f.database()).await;
        plant(
            &f,
            "update pg_index set indisvalid = false where indexrelid = 'jobs.history_at'::regclass",
            "invalid_index",
        )
        .await;
        plant(&f, "alter table jobs.finished set (autovacuum_enabled = false)", "autovacuum").await;
        plant(
            &f,
            "alter table jobs.ready replica identity nothing; create publication all_ready for table jobs.ready",
            "publication",
        )
        .await;
    });
}

/// The server's autovacuum computes the planted number again whenever it comes by, so it is planted until it is seen.
#[test]
fn an_old_transaction_number_or_multixact_is_named_and_repaired() {
    run::<Postgres, _>(async |f: Postgres| {
        // The next number of each sort. What is planted is 1,100,000,000 older. Numbers are computed modulo 2^32.
        for (column, next, named) in [
            ("datfrozenxid", "txid_current()", "the oldest transaction number of the database"),
            ("datminmxid", "mxid_age('1')::bigint + 1", "the oldest multixact of the database"),
        ] {
            let plant = format!(
                "update pg_database set {column} = (({next} - 1100000000) & 4294967295)::text::xid where datname = current_database()"
            );
            none(f.database(), "wraparound").await;
            let mut planted = 0;
            let finding = loop {
                owner(&f).await.batch_execute(&plant).await.unwrap();
                planted += 1;
                if let Some(finding) = found(f.database(), "wraparound").await.pop() {
                    break finding;
                }
                assert!(planted < 20, "the planted number is never seen");
            };
            assert!(finding.what.starts_with(named), "{finding:?}");
            owner(&f).await.batch_execute(&finding.repair).await.unwrap();
            none(f.database(), "wraparound").await;
        }
    });
}

#[test]
fn a_prepared_transaction_is_named_and_ended() {
    run::<Postgres, _>(async |f: Postgres| {
        let gid = format!("{}_forgotten", f.name);
        let prepare = format!("begin; create table of_the_application (id bigint); prepare transaction '{gid}'");
        owner(&f).await.batch_execute(&prepare).await.unwrap();
        let objectives = Objectives { transaction: Duration::ZERO, ..Objectives::default() };
        let find = async || {
            let findings = f.database().operator.examine(objectives, None).await.unwrap();
            findings.into_iter().find(|one| one.what.contains(&gid))
        };
        let ours = find().await.unwrap();
        owner(&f).await.batch_execute(&ours.repair).await.unwrap();
        assert_eq!(find().await, None);
    });
}

#[test]
fn settings_of_the_database_are_named_and_repaired() {
    run::<Postgres, _>(async |f: Postgres| {
        let before = found(f.database(), "setting").await.len();
        for setting in [
            "statement_timeout = '5s'",
            "default_transaction_isolation = serializable",
            "default_transaction_read_only = on",
        ] {
            let name = setting.split(' ').next().unwrap();
            let set = format!(
                "do $$ begin execute format('alter database %I set {}', current_database()); end $$",
                setting.replace('\'', "''")
            );
            owner(&f).await.batch_execute(&set).await.unwrap();
            let again = f.again().await;
            let all = found(&again, "setting").await;
            let ours = all.iter().find(|one| one.repair.ends_with(name)).unwrap_or_else(|| panic!("{name}: {all:?}"));
            let mut conn = owner(&f).await;
            conn.batch_execute("set default_transaction_read_only = off").await.unwrap();
            conn.batch_execute(&ours.repair).await.unwrap();
            assert_eq!(found(&f.again().await, "setting").await.len(), before, "{name}");
        }
    });
}

#[test]
fn an_old_transaction_is_named_and_ended() {
    run::<Postgres, _>(async |f: Postgres| {
        let mut idle = owner(&f).await;
        idle.batch_execute("set application_name = 'forgotten'; begin; select 1").await.unwrap();
        let objectives = Objectives { transaction: Duration::ZERO, ..Objectives::default() };
        let find = async || {
            let findings = f.database().operator.examine(objectives, None).await.unwrap();
            findings.into_iter().find(|one| one.what.contains("forgotten"))
        };
        let ours = find().await.unwrap();
        owner(&f).await.batch_execute(&ours.repair).await.unwrap();
        // The server ends the session when it next looks for signals.
        while find().await.is_some() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
}

/// What a dump does not contain.
#[test]
fn missing_statistics_are_named_and_repaired_while_jobs_wait() {
    run::<Postgres, _>(async |f: Postgres| {
        for (table, insert) in [
            ("ready", "insert into jobs.ready (kind, queue, args) values ('a', 'q', '{}')"),
            ("held", "select jobs.enqueue('a', concurrency => 1)"),
        ] {
            // As a restore from a dump leaves a table that was empty.
            let forget = format!(
                "truncate jobs.{table};
                 delete from pg_statistic where starelid = 'jobs.{table}'::regclass;
                 update pg_class set reltuples = -1 where oid = 'jobs.{table}'::regclass"
            );
            owner(&f).await.batch_execute(&forget).await.unwrap();
            none(f.database(), "statistics").await;
            owner(&f).await.batch_execute(insert).await.unwrap();
            repair(&f, "statistics").await;
        }
    });
}

#[test]
fn a_bloated_index_of_the_claim_is_named_and_rebuilt() {
    run::<Postgres, _>(async |f: Postgres| {
        none(f.database(), "claim_index_bloat").await;
        owner(&f).await.batch_execute("alter table jobs.ready set (autovacuum_enabled = false)").await.unwrap();
        owner(&f).await.batch_execute("insert into jobs.ready (kind, queue, args) select 'a', repeat('q', 60), '{}' from generate_series(1, 60000); analyze jobs.ready").await.unwrap();
        owner(&f).await.batch_execute("delete from jobs.ready").await.unwrap();
        owner(&f).await.batch_execute("vacuum (index_cleanup off) jobs.ready").await.unwrap();
        // The server counts the changes of a session a second later, or when it has ended.
        let bloat = loop {
            if let Some(finding) = found(f.database(), "claim_index_bloat").await.pop() {
                break finding;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        };
        owner(&f).await.batch_execute("vacuum jobs.ready").await.unwrap();
        owner(&f).await.batch_execute(&bloat.repair).await.unwrap();
        none(f.database(), "claim_index_bloat").await;
    });
}

#[test]
fn a_role_that_may_not_see_all_is_told_what_was_skipped() {
    run::<Postgres, _>(async |f: Postgres| {
        enqueue_all(&f, vec![job(); 3]).await;
        let role = format!("{}_reader", f.name);
        let mut owner = owner(&f).await;
        owner.batch_execute(&format!("create role {role} login")).await.unwrap();
        owner
            .batch_execute(&format!(
                "grant usage on schema jobs to {role}; grant select on all tables in schema jobs to {role}"
            ))
            .await
            .unwrap();
        owner.batch_execute(&format!("revoke select on jobs.payload from {role}")).await.unwrap();
        let (before, after) = f.url.split_once("tester@").unwrap();
        let db = open(&format!("{before}{role}@{after}")).await;
        let findings = db.operator.examine(Objectives::default(), None).await.unwrap();
        let skipped: Vec<&str> =
            findings.iter().filter(|one| one.severity == Severity::Skipped).map(|one| one.check).collect();
        assert_eq!(skipped, ["sequence", "old_transaction", "orphan"], "{findings:?}");
        assert!(
            findings
                .iter()
                .any(|one| one.check == "rights" && one.repair == format!("grant delete on jobs.running to {role}")),
            "{findings:?}"
        );
        drop(db);
        owner.batch_execute(&cluster::drop_roles(&[&role])).await.unwrap();
    });
}
