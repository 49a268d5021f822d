//! Hostile names in the interfaces that only PostgreSQL has: the function `jobs.enqueue` and notifications.

use std::collections::HashSet;

use diesel::sql_types::{Array, BigInt, Text};
use diesel_async::{AsyncConnection, AsyncPgConnection, RunQueryDsl};
use diesel_jobs_core::storage::WorkerInfo;
use futures_util::StreamExt as _;

use super::Postgres;
use crate::bench::*;
use crate::client::Number;
use crate::fixture::{Fixture, Port as _, run};
use crate::hostile::{LONGEST, is_storable, named, names, shape};

#[test]
fn the_function_takes_hostile_names_as_they_are_or_refuses_them() {
    run::<Postgres, _>(async |f: Postgres| {
        let (names, before) = (names(), shape(&f).await);
        let mut conn = AsyncPgConnection::establish(&f.url).await.unwrap();
        let (storable, others): (Vec<String>, Vec<String>) = names.into_iter().partition(|name| is_storable(name));
        let enqueued: Number = diesel::sql_query(
            "select count(jobs.enqueue(name, json_build_object('name', name), queue => name, tags => array[name])) as number
             from unnest($1) as name",
        )
        .bind::<Array<Text>, _>(&storable)
        .get_result(&mut conn)
        .await
        .unwrap();
        assert_eq!(usize::try_from(enqueued.number).unwrap(), storable.len());
        let found: Number = diesel::sql_query(
            "select count(distinct kind) as number from jobs.job
             where kind = any($1) and queue = kind and tags = array[kind] and args ->> 'name' = kind",
        )
        .bind::<Array<Text>, _>(&storable)
        .get_result(&mut conn)
        .await
        .unwrap();
        assert_eq!(found.number, enqueued.number);
        for name in &others {
            let refused = diesel::sql_query("select jobs.enqueue($1, queue => $1) as number")
                .bind::<Text, _>(name)
                .get_result::<Number>(&mut conn)
                .await;
            let error = refused.err().unwrap_or_else(|| panic!("{name:?} was taken")).to_string();
            // The message of the server, which may be translated, names the bytes.
            let reason = match name.contains('\0') {
                true => "0x00",
                false if name.len() <= LONGEST && name.contains('*') => "contains *",
                false => "must not be",
            };
            assert!(error.contains(reason), "{name:?}: {error}");
        }
        assert_eq!(shape(&f).await, before);
        assert_eq!(f.client().await.number("select count(*) as number from jobs.job").await, found.number);
    });
}

#[test]
fn a_notification_brings_the_hostile_name_of_its_queue() {
    run::<Postgres, _>(async |f: Postgres| {
        let names: Vec<String> = names().into_iter().filter(|name| is_storable(name)).collect();
        let mut listener = AsyncPgConnection::establish(&f.url).await.unwrap();
        diesel::sql_query("listen jobs").execute(&mut listener).await.unwrap();
        let sleeper = diesel_jobs_core::WorkerId::generate();
        let info = WorkerInfo { queues: names.clone(), ..info(sleeper, HOUR) };
        f.database().storage.register(&info).await.unwrap();
        f.database().storage.set_idle(sleeper, true).await.unwrap();
        // Half of the jobs are enqueued by the statement for one job, the others by the statement for many.
        let (one_by_one, together) = names.split_at(names.len() / 2);
        let mut client = f.client().await;
        client.begin().await;
        for name in one_by_one {
            client.enqueue(named(name)).await.unwrap();
        }
        client.commit().await;
        client.enqueue_all(together.iter().map(|name| named(name)).collect()).await.unwrap();

        let mut missing: HashSet<&str> = names.iter().map(String::as_str).collect();
        let mut notifications = std::pin::pin!(listener.notifications_stream());
        while !missing.is_empty() {
            let notification = notifications.next().await.expect("the connection stands").unwrap();
            assert!(missing.remove(&*notification.payload), "{:?} is nobody's", notification.payload);
        }
        let waiting: Number =
            diesel::sql_query("select count(*) as number from jobs.ready where queue = kind and $1 = 0")
                .bind::<BigInt, _>(0)
                .get_result(&mut AsyncPgConnection::establish(&f.url).await.unwrap())
                .await
                .unwrap();
        assert_eq!(usize::try_from(waiting.number).unwrap(), names.len());
    });
}
