//! Jobs that do not wait if their limit is full, on PostgreSQL: the enqueue in SQL, and rows that others have locked.

use diesel_jobs_core::storage::WaitEnd;
use diesel_jobs_core::{JobState, Limit, NewJob, OnFull, Retention};

use crate::bench::*;
use crate::fixture::{Fixture, Port as _, run};
use crate::limiting::admit;

use super::Postgres;

#[test]
fn sql_enqueues_jobs_that_do_not_wait() {
    run::<Postgres, _>(async |f: Postgres| {
        let db = f.database();
        let mut client = f.client().await;
        for (arguments, flags, rule) in [
            ("concurrency => 1, on_full => 'discard'", 65, Some("discard")),
            ("concurrency => 1, on_full => 'cancel_oldest', limit_name => 'x'", 65, Some("cancel_oldest")),
            ("rate => 9, per => '1 second', on_full => 'discard'", 73, Some("discard")),
            ("concurrency => 1, on_full => 'wait'", 1, None),
            ("concurrency => 1, on_full => 'discard', unique_by => '{}'", 81, Some("discard")),
            ("concurrency => 1, on_full => 'discard', expires => '1 hour'", 97, Some("discard")),
            ("limits => '[{\"concurrency\": 1, \"on_full\": \"cancel_oldest\"}]'", 65, Some("cancel_oldest")),
            ("limits => '[{\"rate\": 9, \"per\": \"1 s\", \"on_full\": \"discard\"}]'", 73, Some("discard")),
            ("limits => '[{\"concurrency\": 1, \"on_full\": null}]'", 1, None),
        ] {
            let id = client.number(&format!("select jobs.enqueue('a', {arguments}) as number")).await;
            let record = record(db, diesel_jobs_core::JobId(id)).await;
            assert_eq!(record.flags, flags, "{arguments}");
            assert_eq!(
                (record.rules[0].rule.on_full().as_str(), record.rules.flags() & 64),
                (rule.unwrap_or("wait"), flags & 64),
                "{arguments}"
            );
        }
    });
}

#[test]
fn sql_refuses_rules_that_cannot_be() {
    run::<Postgres, _>(async |f: Postgres| {
        let mut client = f.client().await;
        for (arguments, problem) in [
            ("concurrency => 1, on_full => 'drop'", "must be wait, discard or cancel_oldest"),
            ("on_full => 'discard'", "has `on_full`, and neither"),
            ("sequence => 'halt', on_full => 'discard'", "has `on_full`, and neither"),
            ("rate => 1, per => '1 second', on_full => 'cancel_oldest'", "frees no token"),
            (
                "concurrency => 1, on_full => 'discard', limits => '[{\"rate\": 1, \"per\": \"1 second\", \"limit_name\": \"x\"}]'",
                "is for one limit or rate",
            ),
            (
                "rate => 1, per => '1 second', limits => '[{\"concurrency\": 1, \"on_full\": \"discard\", \"limit_name\": \"x\"}]'",
                "is for one limit or rate",
            ),
            ("limits => '[{\"concurrency\": 1, \"on_full\": \"drop\"}]'", "must be wait, discard or cancel_oldest"),
            ("limits => '[{\"sequence\": \"halt\", \"on_full\": \"discard\"}]'", "has `on_full`, and neither"),
            ("limits => '[{\"rate\": 1, \"per\": \"1 s\", \"on_full\": \"cancel_oldest\"}]'", "frees no token"),
            (
                "limits => '[{\"concurrency\": 1, \"on_full\": \"discard\"}]', fair_by => '{}'",
                "names at least one argument",
            ),
        ] {
            let refused =
                client.execute(&format!("select jobs.enqueue('a', {arguments})")).await.unwrap_err().to_string();
            assert!(refused.contains(problem), "{arguments}: {refused}");
        }
    });
}

/// A transaction of several statements would fail at its commit, together with all its jobs.
#[test]
fn a_job_that_is_refused_at_the_commit_stops_no_other() {
    run::<Postgres, _>(async |f: Postgres| {
        let db = f.database();
        let deferred =
            "create function refuse() returns trigger language plpgsql as $$ begin raise exception 'not now'; end $$;
             create constraint trigger refuse after insert on jobs.finished deferrable initially deferred for each row
             when (new.kind = 'refused') execute function refuse()";
        f.client().await.execute(deferred).await.unwrap();
        let of = |kind: &'static str, key: &str, rule| {
            let limit = Limit::new("stripe", 1).key(key).on_full(rule);
            NewJob::raw(kind, "{}").rule(limit).unwrap()
        };
        let discard = |kind| of(kind, "x", OnFull::Discard);
        let newest = |kind, key: &str| of(kind, key, OnFull::CancelOldest);
        let ids = enqueue_all(&f, vec![discard("a"), discard("refused"), discard("a")]).await;
        let old = enqueue_all(&f, vec![newest("refused", "y"), newest("a", "z")]).await;
        assert_eq!(admit(db).await, 3);
        enqueue_all(&f, vec![newest("a", "y"), newest("a", "z")]).await;
        let kept = Retention { completed: HOUR, cancelled: HOUR, discarded: HOUR };
        let ends = db.storage.end_waiting(WaitEnd::LimitFull, kept).await.unwrap();
        assert_eq!((ends.ended.len(), ends.refused.len()), (2, 2), "{ends:?}");
        assert_eq!((state(db, ids[1]).await, state(db, ids[2]).await), (JobState::Held, JobState::Discarded));
        assert_eq!((state(db, old[0]).await, state(db, old[1]).await), (JobState::Available, JobState::Cancelled));
    });
}

#[test]
fn locked_jobs_are_passed_over() {
    run::<Postgres, _>(async |f: Postgres| {
        let db = f.database();
        let of = |rule| job().rule(Limit::new("stripe", 1).key(format!("{rule:?}")).on_full(rule)).unwrap();
        let discard = enqueue_all(&f, vec![of(OnFull::Discard); 2]).await;
        let cancel = enqueue_all(&f, vec![of(OnFull::CancelOldest)]).await;
        assert_eq!(admit(db).await, 2);
        enqueue(&f, of(OnFull::CancelOldest)).await;
        let mut other = f.client().await;
        other.begin().await;
        other.execute("select id from jobs.held for update").await.unwrap();
        other.execute("select id from jobs.ready for update").await.unwrap();
        assert!(db.storage.admit(false).await.unwrap().may_be_full);
        let kept = Retention { completed: HOUR, cancelled: HOUR, discarded: HOUR };
        assert!(db.storage.end_waiting(WaitEnd::LimitFull, kept).await.unwrap().ended.is_empty());
        other.rollback().await;
        assert_eq!(db.storage.end_waiting(WaitEnd::LimitFull, kept).await.unwrap().ended.len(), 2);
        assert_eq!(state(db, discard[1]).await, JobState::Discarded);
        assert_eq!(state(db, cancel[0]).await, JobState::Cancelled);
    });
}
