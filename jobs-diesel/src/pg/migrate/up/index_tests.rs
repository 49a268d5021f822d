//! A version that adds an index to a table of a database in use.

use super::*;
use crate::pg::migrate::indexes::{self, Index, State};

const INDEX: &str = "create index if not exists finished_note on jobs.finished (kind, queue)";

/// All versions, and one more with an index on the table of finished jobs.
fn indexed() -> &'static [Migration] {
    next_with(INDEX)
}

const VALID: &str = "select count(*) as number from pg_index
    where indexrelid = to_regclass('jobs.finished_note') and indisvalid and indrelid = 'jobs.finished'::regclass";
/// A build that waits for the end of a transaction.
const WAITS: &str = "select count(*) as number from pg_stat_activity
    where datname = current_database() and query ~ '^create (unique )?index concurrently' and wait_event_type = 'Lock'";

async fn number(conn: &mut AsyncPgConnection, query: &str) -> i64 {
    sql_query(query).get_result::<Number>(conn).await.unwrap().number
}

async fn up_on(name: &str, known: &'static [Migration]) -> Result<Vec<i32>, crate::MigrateError> {
    up(&mut connect(name).await, known, false).await
}

async fn dropped(mut admin: AsyncPgConnection, name: &str) {
    admin.batch_execute(&format!("drop database {name} with (force)")).await.unwrap();
}

fn names(of: &'static [Migration]) -> Vec<String> {
    indexes::of(of.last().unwrap()).map(|index| index.create()).collect()
}

#[test]
fn only_indexes_that_may_exist_are_created_before() {
    let up = "-- create index if not exists in_a_comment on jobs.ready (id);\n\
              create index plain on jobs.ready (id);\n\
              create unique index if not exists a on jobs.finished(id)\n    where id > 7;\n\
              create index if not exists b\n    on jobs.ready using btree (queue);\n\
              alter table jobs.ready add column x text";
    assert_eq!(
        names(next_with(up)),
        [
            "create unique index concurrently if not exists a on jobs.finished(id)\n    where id > 7",
            "create index concurrently if not exists b\n    on jobs.ready using btree (queue)",
        ]
    );
    let tables = indexes::of(next_with(up).last().unwrap()).map(|index| index.table).collect::<Vec<_>>();
    assert_eq!(tables, ["jobs.finished", "jobs.ready"]);
}

#[tokio::test]
async fn an_index_is_built_beside_open_transactions_and_enqueues() {
    let (admin, name, _storage) = database().await;
    let (mut writer, mut client, mut look) = (connect(&name).await, connect(&name).await, connect(&name).await);
    // `create index` would wait for it, and every later write for that.
    writer.batch_execute("begin; lock table jobs.finished in row exclusive mode").await.unwrap();
    let migration = tokio::spawn({
        let name = name.clone();
        async move {
            let mut conn = connect(&name).await;
            conn.batch_execute("set statement_timeout = '3s'; set lock_timeout = '3s'").await.unwrap();
            let done = up(&mut conn, indexed(), false).await.unwrap();
            let limits = "select count(*) as number from pg_settings
                          where name in ('statement_timeout', 'lock_timeout') and setting = '3000'";
            (done, number(&mut conn, limits).await)
        }
    });
    until_some(&mut look, WAITS).await;
    let longer = "select count(*) as number from pg_stat_activity
                  where datname = current_database() and query ~ '^create index concurrently'
                    and query_start < clock_timestamp() - interval '3500 ms'";
    until_some(&mut look, longer).await;
    let enqueue = crate::enqueue_all(&mut client, vec![NewJob::raw("k", "{}")]);
    tokio::time::timeout(LIMIT, enqueue).await.expect("the enqueue waits for the migration").unwrap();
    client.batch_execute("update jobs.finished set kind = kind").await.unwrap();
    assert!(!migration.is_finished());
    writer.batch_execute("commit").await.unwrap();
    let (done, limits) = tokio::time::timeout(LIMIT, migration).await.unwrap().unwrap();
    assert_eq!((done.len(), limits, number(&mut look, VALID).await), (1, 2, 1));
    drop((writer, client, look));
    dropped(admin, &name).await;
}

#[tokio::test]
async fn an_index_whose_build_was_interrupted_is_built_again() {
    for unique in ["", "unique "] {
        let (admin, name, _storage) = database().await;
        let mut conn = connect(&name).await;
        let statement = format!("create {unique}index if not exists finished_note on jobs.finished (id, queue)");
        conn.batch_execute(&statement.replace("if not exists ", "")).await.unwrap();
        conn.batch_execute("update pg_index set indisvalid = false where indexrelid = 'jobs.finished_note'::regclass")
            .await
            .unwrap();
        let known = next_with(&statement);
        assert_eq!(up_on(&name, known).await.unwrap(), [known.len() as i32]);
        assert_eq!(number(&mut conn, VALID).await, 1);
        drop(conn);
        dropped(admin, &name).await;
    }
}

/// The first process builds. The second finds an index that is not valid yet, and must not drop it.
#[tokio::test]
async fn several_processes_migrate_and_one_builds() {
    let (admin, name, _storage) = database().await;
    let (mut writer, mut look) = (connect(&name).await, connect(&name).await);
    writer.batch_execute("begin; lock table jobs.finished in row exclusive mode").await.unwrap();
    let migrate = |name: String| tokio::spawn(async move { up_on(&name, indexed()).await.unwrap() });
    let first = migrate(name.clone());
    until_some(&mut look, WAITS).await;
    let id = "select 'jobs.finished_note'::regclass::oid::bigint as number";
    let built = number(&mut look, id).await;
    let index = indexes::of(indexed().last().unwrap()).next().unwrap();
    assert_eq!(indexes::look(&mut look, &index).await.unwrap(), State::InProgress);
    let mut others: Vec<_> = (0..3).map(|_| migrate(name.clone())).collect();
    // On a blocking connection, too.
    #[cfg(feature = "postgres-sync")]
    others.push(tokio::task::spawn_blocking({
        let name = name.clone();
        move || {
            use diesel::Connection as _;
            let mut conn = diesel::PgConnection::establish(&url(&name)).unwrap();
            crate::pg::migrate::up_sync(&mut conn, indexed(), false).unwrap();
            Vec::new()
        }
    }));
    // Each other process has looked at the index, and ended that transaction.
    let looked = format!(
        "select (count(*) = {})::int::bigint as number from pg_stat_activity
         where datname = current_database() and state = 'idle' and query ilike 'commit%'",
        others.len()
    );
    until_some(&mut look, &looked).await;
    writer.batch_execute("commit").await.unwrap();
    let mut done = tokio::time::timeout(LIMIT, first).await.unwrap().unwrap();
    for other in others {
        done.extend(tokio::time::timeout(LIMIT, other).await.unwrap().unwrap());
    }
    let applied = "select count(*) as number from jobs.schema_migration where name = 'note'";
    assert!(done.len() <= 1, "{done:?}");
    assert_eq!((number(&mut look, applied).await, number(&mut look, VALID).await), (1, 1));
    assert_eq!(number(&mut look, id).await, built);
    drop((writer, look));
    dropped(admin, &name).await;
}

#[cfg(feature = "postgres-sync")]
#[tokio::test]
async fn a_sync_connection_does_the_same() {
    let (admin, name, _storage) = database().await;
    let (mut writer, mut look) = (connect(&name).await, connect(&name).await);
    look.batch_execute(
        "create index finished_note on jobs.finished (kind);
         update pg_index set indisvalid = false where indexrelid = 'jobs.finished_note'::regclass",
    )
    .await
    .unwrap();
    writer.batch_execute("begin; lock table jobs.ready in row exclusive mode").await.unwrap();
    let migration = tokio::task::spawn_blocking({
        let name = name.clone();
        move || {
            use diesel::Connection as _;
            let mut conn = diesel::PgConnection::establish(&url(&name)).unwrap();
            let known = next_with(&format!("create index if not exists ready_note on jobs.ready (kind);\n{INDEX}"));
            crate::pg::migrate::up_sync(&mut conn, known, false).unwrap();
        }
    });
    until_some(&mut look, WAITS).await;
    writer.batch_execute("commit").await.unwrap();
    tokio::time::timeout(LIMIT, migration).await.unwrap().unwrap();
    assert_eq!(number(&mut look, VALID).await, 1);
    drop((writer, look));
    dropped(admin, &name).await;
}

#[tokio::test]
async fn inside_a_transaction_of_the_application_the_version_builds_it() {
    let (admin, name, _storage) = database().await;
    let (mut conn, mut look) = (connect(&name).await, connect(&name).await);
    conn.batch_execute(
        "create index finished_note on jobs.finished (kind);
         update pg_index set indisvalid = false where indexrelid = 'jobs.finished_note'::regclass",
    )
    .await
    .unwrap();
    conn.batch_execute("begin").await.unwrap();
    assert_eq!(up(&mut conn, indexed(), true).await.unwrap(), [indexed().len() as i32]);
    conn.batch_execute("commit").await.unwrap();
    assert_eq!(number(&mut look, VALID).await, 1);
    drop((conn, look));
    dropped(admin, &name).await;
}

/// `if not exists` would pass over them.
#[tokio::test]
async fn something_else_with_the_name_of_the_index_is_an_error() {
    for other in ["create table jobs.finished_note ()", "create index finished_note on jobs.ready (kind)"] {
        let (admin, name, _storage) = database().await;
        let mut conn = connect(&name).await;
        conn.batch_execute(other).await.unwrap();
        let error = tokio::time::timeout(LIMIT, up(&mut conn, indexed(), false)).await.unwrap().unwrap_err();
        assert!(error.to_string().contains("jobs.finished_note, the name of one of its indexes"), "{error}");
        drop(conn);
        dropped(admin, &name).await;
    }
}

/// A version that also creates the table creates its indexes itself.
#[tokio::test]
async fn an_index_of_a_new_table_is_part_of_the_version() {
    let (admin, name, _storage) = database().await;
    let mut conn = connect(&name).await;
    let known = next_with(
        "create table jobs.note (id bigint);\ncreate index if not exists note_id on jobs.note (id);\n\
         create unique index if not exists finished_note on jobs.finished (id)",
    );
    assert_eq!(up(&mut conn, known, false).await.unwrap(), [known.len() as i32]);
    let index: Index = indexes::of(known.last().unwrap()).next().unwrap();
    assert_eq!(indexes::look(&mut conn, &index).await.unwrap(), State::Ready);
    assert_eq!(number(&mut conn, VALID).await, 1);
    drop(conn);
    dropped(admin, &name).await;
}

/// Rows that a unique index cannot have, for example. The next attempt finds what this one has left.
#[tokio::test]
async fn a_build_that_fails_can_be_repeated() {
    let (admin, name, _storage) = database().await;
    let mut conn = connect(&name).await;
    crate::enqueue_all(&mut conn, vec![NewJob::raw("k", "{}"), NewJob::raw("k", "{}")]).await.unwrap();
    conn.batch_execute("set statement_timeout = '77s'").await.unwrap();
    let limit = "select count(*) as number from pg_settings where name = 'statement_timeout' and setting = '77000'";
    let known = next_with("create unique index if not exists ready_note on jobs.ready (kind)");
    let error = up(&mut conn, known, false).await.unwrap_err().to_string();
    assert!(error.contains("migration 0002_note: ") && error.contains("ready_note"), "{error}");
    assert_eq!(number(&mut conn, limit).await, 1);
    conn.batch_execute("delete from jobs.ready where id = (select min(id) from jobs.ready)").await.unwrap();
    assert_eq!(up(&mut conn, known, false).await.unwrap(), [known.len() as i32]);
    drop(conn);
    dropped(admin, &name).await;
}
