//! Tests which connections the pools of a storage use, and how they are opened.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use diesel::QueryDsl as _;
use diesel::sql_types::{BigInt, Integer, Nullable};
use diesel_async::{AsyncPgConnection, RunQueryDsl as _, SimpleAsyncConnection as _};
use diesel_jobs_core::WorkerId;
use diesel_jobs_core::storage::{Storage as _, StorageResult};
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::connect::Connector;
use super::tests::{database, url};
use super::{PgStorage, run};
use crate::stopwatch::Stopwatch;

diesel::table! {
    thing (id) { id -> BigInt, note -> Text, }
}

const PID: &str = "pg_backend_pid()";

async fn pid(conn: &mut AsyncPgConnection) -> i32 {
    diesel::select(diesel::dsl::sql::<Integer>(PID)).get_result(conn).await.unwrap()
}

/// The server processes of a connection of each pool.
async fn pids(storage: &PgStorage) -> Vec<i32> {
    let mut pids = vec![
        pid(&mut storage.connection().await.unwrap()).await,
        pid(&mut storage.handlers.get().await.unwrap()).await,
    ];
    #[cfg(feature = "postgres-sync")]
    {
        let blocking = storage.blocking.clone();
        let pid = move || {
            let mut conn = blocking.get().unwrap();
            let conn: &mut diesel::PgConnection = &mut conn;
            diesel::RunQueryDsl::get_result(diesel::select(diesel::dsl::sql::<Integer>(PID)), conn).unwrap()
        };
        pids.push(tokio::task::spawn_blocking(pid).await.unwrap());
    }
    pids
}

async fn sessions(conn: &mut AsyncPgConnection, name: &str) -> i64 {
    let count = format!("(select count(*) from pg_stat_activity where datname = '{name}')");
    diesel::select(diesel::dsl::sql::<BigInt>(&count)).get_result(conn).await.unwrap()
}

#[tokio::test]
async fn connections_are_used_again_until_they_have_reached_their_age() {
    let (mut admin, name, _) = database().await;
    for (lifetime, is_used_again) in [(Duration::from_secs(3600), true), (Duration::from_nanos(1), false)] {
        let connector = Connector::from_url(&url(&name)).unwrap().timed_by(Stopwatch::StandsStill);
        let storage = PgStorage::on(connector.living_for(lifetime), 1).unwrap();
        let (before, after) = (pids(&storage).await, pids(&storage).await);
        for (before, after) in before.iter().zip(&after) {
            assert_eq!(before == after, is_used_again, "{lifetime:?}");
        }
        drop(storage);
    }
    admin.batch_execute(&format!("drop database {name} with (force)")).await.unwrap();
}

#[tokio::test]
async fn idle_connections_that_have_reached_their_age_are_closed() {
    let (mut admin, name, _) = database().await;
    let connector = Connector::from_url(&url(&name)).unwrap().timed_by(Stopwatch::StandsStill);
    let storage = PgStorage::on(connector.living_for(Duration::from_nanos(1)), 8).unwrap();
    let all = (storage.handlers.get().await.unwrap(), storage.handlers.get().await.unwrap());
    drop(all);
    assert_eq!(storage.handlers.status().size, 2);
    // Any of the worker's own statements.
    drop(storage.connection().await.unwrap());
    assert_eq!(storage.handlers.status().size, 0);
    drop(storage);
    while sessions(&mut admin, &name).await > 0 {
        tokio::task::yield_now().await;
    }
    admin.batch_execute(&format!("drop database {name}")).await.unwrap();
}

/// The server process of the newest session that has sent such a statement.
async fn newest(conn: &mut AsyncPgConnection, name: &str, query: &str) -> Option<i32> {
    let sessions = format!("pg_stat_activity where datname = '{name}' and query like '{query}'");
    let pid = format!("(select pid from {sessions} order by backend_start desc limit 1)");
    diesel::select(diesel::dsl::sql::<Nullable<Integer>>(&pid)).get_result(conn).await.unwrap()
}

#[tokio::test]
async fn the_listener_and_the_heartbeat_reach_their_age_too() {
    let (mut admin, name, _) = database().await;
    let connector = Connector::from_url(&url(&name)).unwrap().timed_by(Stopwatch::StandsStill);
    let storage = PgStorage::on(connector.living_for(Duration::from_nanos(1)), 1).unwrap();
    let (wake, admission, stop) = (Arc::new(Notify::new()), Arc::new(Notify::new()), CancellationToken::new());
    let queues = ["default".to_owned()];
    let listening = storage.listen(&queues, wake.clone(), admission.clone(), stop.clone());
    let changes = async {
        let mut seen = HashSet::new();
        while seen.len() < 3 {
            // One poll after each of them finds what was notified in between.
            wake.notified().await;
            admission.notified().await;
            seen.extend(newest(&mut admin, &name, "listen %").await);
        }
        stop.cancel();
    };
    tokio::join!(listening, changes);

    let mut heartbeat = storage.open_heartbeat(WorkerId::generate()).await.unwrap();
    let mut seen = HashSet::new();
    for _ in 0..2 {
        assert_eq!(heartbeat.beat(false, Duration::from_secs(3600)).await.unwrap(), None, "it is not registered");
        seen.extend(newest(&mut admin, &name, "%").await);
    }
    assert_eq!(seen.len(), 2, "{seen:?}");
    drop((heartbeat, storage));
    admin.batch_execute(&format!("drop database {name} with (force)")).await.unwrap();
}

/// The role may have two connections.
#[tokio::test]
async fn idle_connections_of_one_pool_keep_no_other_from_connecting() {
    let (mut admin, name, _) = database().await;
    let here = url(&name);
    let role = format!("create role {name} login connection limit 2; alter database {name} owner to {name}");
    admin.batch_execute(&role).await.unwrap();
    let here = format!("postgres://{name}@{}", here.split_once('@').unwrap().1);
    let storage = PgStorage::new(&here, 2, Stopwatch::StandsStill).unwrap();
    drop((storage.connection().await.unwrap(), storage.connection().await.unwrap()));
    assert_eq!(storage.own.status().size, 2);
    let problem = storage.handlers.get().await.err().unwrap().to_string();
    assert!(problem.contains("too many connections for role"), "{problem}");
    storage.sweep();
    assert_eq!(storage.own.status().size, 0);

    // The server needs a moment to end the sessions.
    let mut held = Vec::new();
    while held.len() < 2 {
        held.extend(storage.handlers.get().await);
    }
    storage.sweep();
    drop(held);
    assert!(storage.connection().await.is_err());
    assert_eq!(storage.handlers.status().size, 2);
    storage.sweep();
    assert_eq!(storage.handlers.status().size, 0);

    #[cfg(feature = "postgres-sync")]
    {
        let blocking = storage.blocking.clone();
        let both = move || {
            while blocking.state().connections < 2 {
                drop((blocking.get(), blocking.get()));
            }
        };
        tokio::task::spawn_blocking(both).await.unwrap();
        assert!(storage.connection().await.is_err());
        storage.sweep();
        assert_eq!(storage.blocking.state().connections, 0);
    }
    drop(storage);
    admin.batch_execute(&format!("drop database {name} with (force)")).await.unwrap();
    admin.batch_execute(&format!("drop role {name}")).await.unwrap();
}

async fn note(storage: &PgStorage) -> StorageResult<String> {
    run!(storage, "note", conn => thing::table.select(thing::note).first(conn))
}

#[tokio::test]
async fn a_stale_session_of_the_workers_own_ends_all_of_them() {
    let (mut admin, name, storage) = database().await;
    let table = "create table thing (id bigint primary key, note text not null); insert into thing values (7, 'x')";
    storage.connection().await.unwrap().batch_execute(table).await.unwrap();
    assert_eq!(note(&storage).await.unwrap(), "x");
    let before = pids(&storage).await;
    let change = "alter table thing alter column note type varchar(200)";
    storage.connection().await.unwrap().batch_execute(change).await.unwrap();
    let problem = note(&storage).await.unwrap_err().to_string();
    assert!(problem.contains("cached plan"), "{problem}");
    assert_eq!(note(&storage).await.unwrap(), "x");
    for (before, after) in before.iter().zip(pids(&storage).await) {
        assert_ne!(*before, after);
    }
    drop(storage);
    admin.batch_execute(&format!("drop database {name} with (force)")).await.unwrap();
}

#[tokio::test]
async fn a_host_that_accepts_and_is_silent_has_its_share_of_the_time() {
    let (mut admin, name, _) = database().await;
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let here = url(&name);
    let (user, rest) = here.split_once('@').unwrap();
    let port = silent.local_addr().unwrap().port();
    let storage = PgStorage::new(&format!("{user}@127.0.0.1:{port},{rest}?connect_timeout=8"), 1, Stopwatch::Runs);
    let storage = storage.unwrap();
    assert!(pids(&storage).await.into_iter().all(|pid| pid > 0));
    let other = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let ports = [port, other.local_addr().unwrap().port()];
    let alone = format!("{user}@127.0.0.1:{},127.0.0.1:{}/x?connect_timeout=1", ports[0], ports[1]);
    let problem = PgStorage::new(&alone, 1, Stopwatch::Runs).unwrap().connection().await.err().unwrap().to_string();
    for port in ports {
        assert!(problem.contains(&format!("127.0.0.1:{port}: the server did not answer within 1 s")), "{problem}");
    }
    drop(storage);
    admin.batch_execute(&format!("drop database {name} with (force)")).await.unwrap();
}

/// Which of several servers is used, also by libpq's connections.
#[tokio::test]
async fn a_server_of_another_role_is_passed_over() {
    let (mut admin, name, _) = database().await;
    let here = url(&name);
    let attrs = |attrs: &str| {
        let storage = PgStorage::new(&format!("{here}?target_session_attrs={attrs}"), 1, Stopwatch::StandsStill);
        storage.unwrap()
    };
    for role in ["primary", "prefer-standby", "read-write", "any"] {
        let storage = attrs(role);
        assert!(pids(&storage).await.into_iter().all(|pid| pid > 0), "{role}");
    }
    let problem = attrs("standby").connection().await.err().unwrap().to_string();
    assert!(problem.contains("the server is a primary, and a standby is looked for"), "{problem}");
    admin.batch_execute(&format!("drop database {name} with (force)")).await.unwrap();
}

/// Behind a pooler, a session that was the primary's may be a standby's. It is as if the server's function said so.
#[tokio::test]
async fn a_session_that_has_come_to_a_standby_ends_all_of_them_unless_the_url_allows_it() {
    let (mut admin, name, storage) = database().await;
    let standby = format!(
        "create function public.pg_is_in_recovery() returns boolean language sql as 'select true';
         alter database {name} set search_path = public, pg_catalog"
    );
    storage.connection().await.unwrap().batch_execute(&standby).await.unwrap();
    drop(storage);
    for (role, stays) in [("", false), ("?target_session_attrs=read-write", false), ("?target_session_attrs=any", true)]
    {
        let storage = PgStorage::new(&(url(&name) + role), 1, Stopwatch::StandsStill).unwrap();
        let before = pids(&storage).await;
        assert!(storage.check_schema().await.unwrap().standby);
        for (before, after) in before.iter().zip(pids(&storage).await) {
            assert_eq!(*before == after, stays, "{role}");
        }
    }
    admin.batch_execute(&format!("drop database {name} with (force)")).await.unwrap();
}
