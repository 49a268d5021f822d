//! A database that sorts differently than when its indexes were built, as after an upgrade of the operating system.

use diesel_jobs_core::storage::{Action, Operated};
use diesel_jobs_core::{Limit, NewJob, Unique};

use super::{Postgres, admin, new_name};
use crate::bench::*;
use crate::examining::{none, one};
use crate::fixture::{Fixture, Port as _, run};

/// German has these in another order than bytes.
const NAMES: [&str; 12] = ["a", "B", "z", "Z", "ä", "Ä", "_x", "mail-2", "mail 2", "Mail", "10", "9"];

/// A database that sorts as in German, or why there is none.
async fn german() -> Result<Postgres, &'static str> {
    let f = Postgres::empty().await;
    if f.client().await.number("select current_setting('server_version_num')::bigint as number").await < 150_000 {
        return Err("NOT TESTED: before PostgreSQL 15 a database cannot sort by ICU");
    }
    let name = new_name("german");
    let sorts = "encoding 'UTF8' locale_provider icu icu_locale 'de' lc_collate 'C' lc_ctype 'C'";
    admin(&format!("create database {name} template template0 {sorts}")).await;
    let f = Postgres::open(name).await;
    f.database().migrator.up().await.unwrap();
    Ok(f)
}

fn of(name: &str) -> NewJob {
    let mut job = NewJob::raw("a", format!(r#"{{"user":"{name}"}}"#));
    job.queue = name.to_owned().into();
    job
}

#[tokio::test]
async fn names_and_keys_are_found_after_the_collation_has_changed() {
    let f = match german().await {
        Ok(f) => f,
        Err(why) => return eprintln!("{why}"),
    };
    let unique = |name: &str| of(name).unique(Unique::new().by(&["user"])).unwrap();
    let mut enqueued = Vec::new();
    for name in NAMES {
        enqueued.push(enqueue(&f, unique(name)).await);
        enqueue(&f, of(name).rule(Limit::new(name, 1)).unwrap()).await;
        for table in ["queue", "kind"] {
            let pause = format!("insert into jobs.{table} (name, paused) values ('{name} is paused', true)");
            f.client().await.execute(&pause).await.unwrap();
        }
        f.database().operator.set_limit(name, 7, "ann", None).await.unwrap();
    }
    admin(&format!("update pg_database set datlocprovider = 'c', datcollversion = null where datname = '{}'", f.name))
        .await;

    let db = &f.again().await;
    let mut client = f.client().await;
    let sorted =
        "select (array_agg(name order by name) = array_agg(name order by name collate \"C\"))::int::bigint as number
                  from unnest(array['a', 'B']) as name";
    assert_eq!(client.number(sorted).await, 1, "it sorts by bytes now");
    for (name, id) in NAMES.iter().zip(&enqueued) {
        let again = client.answer(unique(name)).await.unwrap();
        assert_eq!((again.is_existing(), again.id()), (true, *id), "the unique key {name}");
        for table in ["queue", "kind"] {
            let found = format!("select count(*) as number from jobs.{table} where name = '{name} is paused'");
            client.execute("set enable_seqscan = off").await.unwrap();
            assert_eq!(client.number(&found).await, 1, "{name}");
        }
        assert!(db.operator.reset_limit(name, "ann").await.unwrap(), "the limit {name}");
    }
    assert_eq!(crate::limiting::admit(db).await, NAMES.len());
    let worker = worker(db).await;
    let queues = NAMES.map(|name| (name, 9));
    assert_eq!(db.storage.claim(&wants(worker, &queues)).await.unwrap().len(), 2 * NAMES.len());
    let acted = db.operator.act(&Action::Cancel, &enqueued, "ann").await.unwrap();
    assert_eq!(acted, [Operated::Done; NAMES.len()]);
}

/// In every database: nothing of ours is sorted by the database's collation.
#[test]
fn no_index_depends_on_the_collation_of_the_database() {
    run::<Postgres, _>(async |f: Postgres| {
        let dependent = "select count(*) as number from pg_index i join pg_class c on c.oid = i.indrelid
            where c.relnamespace = 'jobs'::regnamespace and exists (
                select from unnest(i.indcollation) as used where used <> 0 and used <> '\"C\"'::regcollation)";
        assert_eq!(f.client().await.number(dependent).await, 0);
    });
}

#[tokio::test]
async fn the_doctor_compares_the_versions_of_the_collation() {
    let f = match german().await {
        Ok(f) => f,
        Err(why) => return eprintln!("{why}"),
    };
    none(f.database(), "collation").await;
    admin(&format!("update pg_database set datcollversion = '1' where datname = '{}'", f.name)).await;
    let finding = one(f.database(), "collation").await;
    assert!(finding.what.contains("version 1 of its collation"), "{finding:?}");
    let mut client = f.client().await;
    for statement in finding.repair.split("; then: ") {
        client.execute(statement).await.unwrap();
    }
    none(f.database(), "collation").await;
}
