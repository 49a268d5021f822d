//! What a discard writes and sends for the job that it enqueues.

use diesel_async::{AsyncConnection as _, AsyncPgConnection, SimpleAsyncConnection as _};
use diesel_jobs_core::{JobState, Limit, NewJob, WorkerId};
use futures_util::StreamExt as _;

use super::Postgres;
use crate::bench::*;
use crate::discarding::worker;
use crate::fixture::{Fixture, Port as _, run};
use crate::followers::declare;

#[test]
fn a_discard_wakes_the_workers_that_the_follower_needs() {
    run::<Postgres, _>(async |f: Postgres| {
        let db = f.database();
        let worker = worker(db).await;
        let plain = NewJob::raw("b", "{}");
        let limited = plain.clone().rule(Limit::new("pager", 1)).unwrap();
        let mut listener = AsyncPgConnection::establish(&f.url).await.unwrap();
        listener.batch_execute("listen jobs").await.unwrap();
        enqueue_all(&f, vec![job(); 2]).await;
        let jobs = claim(db, worker, 2).await;
        let sleeper = WorkerId::generate();
        db.storage.register(&info(sleeper, HOUR)).await.unwrap();
        db.storage.set_idle(sleeper, true).await.unwrap();
        for (job, follower) in jobs.iter().zip([limited, plain]) {
            declare(db, follower).await;
            assert!(finish(db, job, discard()).await);
        }
        let mut notifications = std::pin::pin!(listener.notifications_stream());
        let mut heard = Vec::new();
        for _ in 0..4 {
            heard.push(notifications.next().await.unwrap().unwrap().payload);
        }
        let expected = ["", "", "", "default"];
        assert_eq!(heard, expected, "a declared rule and admission, then another rule and the workers of the queue");
    });
}

#[test]
fn a_follower_without_rules_writes_nothing_about_rules() {
    run::<Postgres, _>(async |f: Postgres| {
        let db = f.database();
        declare(db, NewJob::raw("b", "{}")).await;
        let refuse =
            "create function refuse() returns trigger language plpgsql as $$ begin raise exception 'touched'; end $$;
            create trigger refuse before insert on jobs.held for each statement execute function refuse();
            create trigger refuse before insert on jobs.nudge for each statement execute function refuse();
            create trigger refuse before insert on jobs.expiry for each statement execute function refuse()";
        f.client().await.execute(refuse).await.unwrap();
        let worker = worker(db).await;
        let lost = claimed(&f, worker, job()).await;
        assert!(finish(db, &lost, discard()).await);
        let follower = claim(db, worker, 9).await.remove(0);
        assert_eq!(follower.kind, "b");
        assert_eq!(state(db, lost.lease.job).await, JobState::Discarded);
        // The triggers do refuse.
        declare(db, NewJob::raw("b", "{}").rule(Limit::new("pager", 1)).unwrap()).await;
        let lost = claimed(&f, worker, job()).await;
        assert!(finish(db, &lost, discard()).await);
        assert!(failures(db, lost.lease.job).await.iter().any(|failure| failure.message.ends_with("refused: touched")));
    });
}
