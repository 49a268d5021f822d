//! Which workers an enqueue notifies.

use std::sync::Arc;

use diesel::sql_types::{BigInt, Text};
use diesel_async::{AsyncConnection as _, AsyncPgConnection, RunQueryDsl as _, SimpleAsyncConnection as _};
use diesel_jobs_core::storage::WorkerInfo;
use diesel_jobs_core::{NewJob, WorkerId};
use futures_util::{FutureExt as _, StreamExt as _};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::Postgres;
use crate::bench::*;
use crate::client::Number;
use crate::fixture::{Fixture, PATIENCE, Port as _, run};

/// Registers an idle worker of these queues.
async fn sleeper(f: &Postgres, queues: &[&str]) {
    let id = WorkerId::generate();
    let queues = queues.iter().map(|queue| (*queue).to_owned()).collect();
    f.database().storage.register(&WorkerInfo { queues, ..info(id, HOUR) }).await.unwrap();
    f.database().storage.set_idle(id, true).await.unwrap();
}

fn in_queue(queue: &str) -> NewJob {
    let mut job = job();
    job.queue = queue.to_owned().into();
    job
}

#[test]
fn an_enqueue_notifies_only_where_a_sleeping_worker_serves_its_queue() {
    run::<Postgres, _>(async |f: Postgres| {
        sleeper(&f, &["mail"]).await;
        let mut listener = AsyncPgConnection::establish(&f.url).await.unwrap();
        diesel::sql_query("listen jobs").execute(&mut listener).await.unwrap();
        let mut client = f.client().await;
        client.enqueue(in_queue("reports")).await.unwrap();
        client.enqueue_all(vec![in_queue("reports"); 3]).await.unwrap();
        let sql = "select jobs.enqueue('a', queue => $1) as number";
        let enqueued: Number = diesel::sql_query(sql)
            .bind::<Text, _>("reports")
            .get_result(&mut AsyncPgConnection::establish(&f.url).await.unwrap())
            .await
            .unwrap();
        assert!(enqueued.number > 0);
        client.enqueue(in_queue("mail")).await.unwrap();
        let mut notifications = std::pin::pin!(listener.notifications_stream());
        let first = notifications.next().await.unwrap().unwrap();
        assert_eq!(first.payload, "mail", "what came before was nobody's");
    });
}

#[test]
fn a_bulk_notifies_each_of_its_queues_that_a_sleeping_worker_serves() {
    run::<Postgres, _>(async |f: Postgres| {
        sleeper(&f, &["mail", "news"]).await;
        let mut listener = AsyncPgConnection::establish(&f.url).await.unwrap();
        diesel::sql_query("listen jobs").execute(&mut listener).await.unwrap();
        let mut client = f.client().await;
        let queues = ["mail", "reports", "news", "mail", "reports"];
        let ids = client.enqueue_all(queues.map(in_queue).to_vec()).await.unwrap();
        assert!(ids.len() == 5 && ids.is_sorted_by(|a, b| a < b), "{ids:?}");
        let alike = client.enqueue_all(vec![in_queue("mail"); 3]).await.unwrap();
        assert!(alike.len() == 3 && alike.is_sorted_by(|a, b| a < b), "{alike:?}");
        client.enqueue_all(vec![in_queue("reports"); 3]).await.unwrap();
        client.enqueue(in_queue("news")).await.unwrap();
        let mut notifications = std::pin::pin!(listener.notifications_stream());
        let mut heard = Vec::new();
        for _ in 0..4 {
            heard.push(notifications.next().await.unwrap().unwrap().payload);
        }
        assert_eq!(
            heard,
            ["mail", "news", "mail", "news"],
            "two for the bulk of all sorts, one for that of one queue, none for the next"
        );
    });
}

#[test]
fn a_listener_ignores_hints_for_queues_that_it_does_not_serve() {
    run::<Postgres, _>(async |f: Postgres| {
        sleeper(&f, &["mail", "reports"]).await;
        let (wake, admission) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let stop = CancellationToken::new();
        let listening = tokio::spawn({
            let (db, wake, admission, stop) = (f.again().await, wake.clone(), admission.clone(), stop.clone());
            async move { db.storage.listen(&["mail".to_owned()], wake, admission, stop).await }
        });
        // The listener has passed on all earlier hints when it passes on this one, which is for the admission.
        let all_are_heard = async || {
            AsyncPgConnection::establish(&f.url).await.unwrap().batch_execute("notify jobs").await.unwrap();
            tokio::time::timeout(PATIENCE, admission.notified()).await.unwrap();
        };
        // When the listener begins to listen, it wakes the worker once.
        tokio::time::timeout(PATIENCE, wake.notified()).await.unwrap();
        enqueue(&f, in_queue("reports")).await;
        all_are_heard().await;
        assert!(wake.notified().now_or_never().is_none());
        enqueue(&f, in_queue("mail")).await;
        all_are_heard().await;
        assert!(wake.notified().now_or_never().is_some());
        stop.cancel();
        listening.await.unwrap();
    });
}

#[test]
fn a_transaction_that_will_be_prepared_can_do_without_a_notification() {
    run::<Postgres, _>(async |f: Postgres| {
        sleeper(&f, &["default"]).await;
        let mut conn = AsyncPgConnection::establish(&f.url).await.unwrap();
        let enqueue = "select jobs.enqueue('a')";
        conn.batch_execute(&format!("begin; {enqueue}")).await.unwrap();
        let refused = conn.batch_execute("prepare transaction 'order'").await.unwrap_err().to_string();
        assert!(refused.contains("NOTIFY"), "{refused}");
        conn.batch_execute("rollback").await.unwrap();
        conn.batch_execute(&format!("begin; set local jobs.notify = 'off'; {enqueue}")).await.unwrap();
        // In Rust, too.
        diesel_jobs_storage::enqueue_all(&mut conn, vec![in_queue("default")]).await.unwrap();
        diesel_jobs_storage::enqueue_all(&mut conn, vec![in_queue("default"); 3]).await.unwrap();
        let name = f.url.rsplit('/').next().unwrap().replace('?', "_");
        for sql in [format!("prepare transaction '{name}'"), format!("commit prepared '{name}'")] {
            conn.batch_execute(&sql).await.unwrap();
        }
        let waiting: Number = diesel::sql_query("select count(*) as number from jobs.ready where $1 = 0")
            .bind::<BigInt, _>(0)
            .get_result(&mut conn)
            .await
            .unwrap();
        assert_eq!(waiting.number, 5);
    });
}

/// So an idle worker need not read the settings to learn that they have changed.
#[test]
fn a_changed_setting_notifies_the_idle_workers() {
    run::<Postgres, _>(async |f: Postgres| {
        sleeper(&f, &["mail"]).await;
        let mut conn = AsyncPgConnection::establish(&f.url).await.unwrap();
        let mut listener = AsyncPgConnection::establish(&f.url).await.unwrap();
        diesel::sql_query("listen jobs").execute(&mut listener).await.unwrap();
        let mut notifications = std::pin::pin!(listener.notifications_stream());
        let mut heard = async |conn: &mut AsyncPgConnection, sql: &str| {
            conn.batch_execute(&format!("begin; {sql}; commit; notify jobs, 'the end'")).await.unwrap();
            let mut heard = Vec::new();
            loop {
                match notifications.next().await.unwrap().unwrap().payload {
                    end if end == "the end" => break heard,
                    payload => heard.push(payload),
                }
            }
        };
        let schedule = "insert into jobs.schedule (name, kind, expression, timezone, catch_up)
            values ('a', 'a', '0 2 * * *', 'UTC', 'skip')";
        for change in [
            "insert into jobs.queue (name, paused) values ('mail', true)",
            "update jobs.queue set slots = 3",
            "insert into jobs.kind (name, paused) values ('a', true)",
            "delete from jobs.kind",
            "insert into jobs.retention (kind, state) values ('a', 1)",
            "insert into jobs.installation (frozen_at) values (now())",
            "update jobs.installation set frozen_at = null",
            "insert into jobs.operation (action, filter, actor, last_id) values ('cancel', '{}', 'ann', 9)",
            "update jobs.worker set asked = 'quiet'",
            schedule,
            "update jobs.schedule set paused = true",
            // No worker is idle, but one may become idle before a transaction commits.
            "update jobs.worker set idle = false; update jobs.queue set slots = 4",
        ] {
            assert_eq!(heard(&mut conn, change).await, [""], "{change}");
        }
        for other in
            ["update jobs.schedule set last_tick = now()", "update jobs.worker set heartbeat_at = now(), idle = false"]
        {
            assert_eq!(heard(&mut conn, other).await, [""; 0], "{other}");
        }
    });
}
