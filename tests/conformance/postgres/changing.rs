//! Jobs that an application changes, in SQL and beside other sessions.

use std::time::Duration;

use diesel_async::{AsyncConnection as _, AsyncPgConnection, SimpleAsyncConnection as _};
use diesel_jobs_core::flags::KNOWN;
use diesel_jobs_core::storage::Action;
use diesel_jobs_core::{JobId, JobState, Limit};

use super::{Postgres, admin, admin_at_the_end};
use crate::bench::*;
use crate::client::Client;
use crate::client::Which::{One, Some as Many, Tag};
use crate::fixture::{Fixture as _, PATIENCE, Port as _, run};

#[test]
fn sql_changes_jobs_by_id_tag_and_unique_key() {
    run::<Postgres, _>(async |f: Postgres| {
        let db = f.database();
        let mut client = f.client().await;
        let enqueue = r#"select jobs.enqueue('a', '{"user": 7, "note": "x"}', tags => '{order-7}', unique_by => '{user}') as number"#;
        for by in
            ["{id}", "id => {id}", "tag => 'order-7'", r#"kind => 'a', args => '{"user": 7}', unique_by => '{user}'"#]
        {
            let id = client.number(enqueue).await;
            let by = by.replace("{id}", &id.to_string());
            let at = by.replacen(&id.to_string(), &format!("{id}, now() + '1 hour'"), 1);
            let at = if at == by { format!("{by}, run_at => now() + '1 hour'") } else { at.replace("id => ", "") };
            let id = id.into();
            assert_eq!(client.number(&format!("select jobs.reschedule({at})::bigint as number")).await, 1, "{at}");
            assert_eq!(state(db, id).await, JobState::Scheduled, "{by}");
            assert_eq!(client.number(&format!("select jobs.retry({by})::bigint as number")).await, 1, "{by}");
            assert_eq!(state(db, id).await, JobState::Available, "{by}");
            assert_eq!(client.number(&format!("select jobs.cancel({by})::bigint as number")).await, 1, "{by}");
            assert_eq!(state(db, id).await, JobState::Cancelled, "{by}");
            assert_eq!(client.number(&format!("select jobs.cancel({by})::bigint as number")).await, 0, "{by}");
            // So that the next one alone has the tag.
            client.execute(&format!("delete from jobs.finished where id = {id}")).await.unwrap();
        }
    });
}

#[test]
fn wrong_calls_of_sql_are_refused_in_words() {
    run::<Postgres, _>(async |f: Postgres| {
        let mut client = f.client().await;
        for (call, part) in [
            ("cancel()", "jobs.cancel: give exactly one of `id`, `tag` and `kind`"),
            ("cancel(null)", "jobs.cancel: give exactly one of"),
            ("retry(1, 'x')", "jobs.retry: give exactly one of"),
            ("cancel(kind => 'a')", "give `kind`, `args` and `unique_by`"),
            ("cancel(1, unique_by => '{user}')", "give `kind`, `args` and `unique_by`"),
            ("cancel(kind => 'a', args => '{}', unique_by => '{user}')", "`by` names the argument user"),
            ("act('delete', '{1}', null, null, null, null)", "jobs.act: there is no action delete"),
            ("act('reschedule', '{1}', null, null, null, null)", "jobs.act: there is no action reschedule at <NULL>"),
            ("reschedule(1)", "`run_at` is a time of the next hundred years, and not null"),
            ("reschedule(1, 'infinity')", "and not infinity"),
            ("reschedule(1, now() + '101 years')", "`run_at` is a time of the next hundred years"),
        ] {
            let refused = client.execute(&format!("select jobs.{call}")).await.unwrap_err().to_string();
            assert!(refused.contains(part), "{call}: {refused}");
        }
        client.execute("select jobs.reschedule(1, '-infinity')").await.unwrap();
    });
}

/// A trigger of the application: who deletes an order cancels its jobs. The deleter has the enqueuer's rights only.
#[test]
fn a_trigger_cancels_jobs_with_the_rights_of_an_enqueuer() {
    run::<Postgres, _>(async |f: Postgres| {
        let (db, role) = (f.database(), format!("{}_web", f.name));
        let script = diesel_jobs_storage::migrations::POSTGRES_ROLES
            .replace("jobs_enqueuer", &role)
            .replace("jobs_worker", &format!("{role}_worker"));
        let mut owner = AsyncPgConnection::establish(&f.url).await.unwrap();
        owner.batch_execute(&script).await.unwrap();
        let reader = format!("{role}_reader");
        admin(&format!("create role {role}_login login in role {role}; create role {reader} login")).await;
        owner
            .batch_execute(&format!(
                "create table orders (id bigint primary key);
                 create function cancel_jobs_of_order() returns trigger language plpgsql as $$
                 begin perform jobs.cancel(tag => 'order-' || old.id); return old; end $$;
                 create trigger cancel_jobs after delete on orders for each row execute function cancel_jobs_of_order();
                 insert into orders values (7), (8);
                 grant select, delete on orders to {role};
                 grant usage on schema jobs to {reader}; grant select on jobs.job to {reader}"
            ))
            .await
            .unwrap();
        let of = |tag: &str| with(|job| job.tags = vec![tag.to_owned()]);
        let ids = enqueue_all(&f, vec![of("order-7"), of("order-8"), of("order-7")]).await;
        let place = f.url.split_once('@').unwrap().1;
        let mut web = AsyncPgConnection::establish(&format!("postgres://{role}_login@{place}")).await.unwrap();
        web.batch_execute("begin; delete from orders; rollback; delete from orders where id = 7").await.unwrap();
        for (id, expected) in ids.iter().zip([JobState::Cancelled, JobState::Available, JobState::Cancelled]) {
            assert_eq!(state(db, *id).await, expected);
        }
        let entry = db.operator.audit(None, 1).await.unwrap().remove(0);
        assert_eq!((entry.actor, entry.target), (format!("role {role}_login"), "2 jobs".to_owned()));
        assert_eq!(failures(db, ids[0]).await[0].message, format!("cancelled by role {role}_login"));

        let mut reader = AsyncPgConnection::establish(&format!("postgres://{role}_reader@{place}")).await.unwrap();
        for call in [
            "jobs.cancel(1)",
            "jobs.retry(1)",
            "jobs.reschedule(1, now())",
            "jobs.act('cancel', '{1}', null, null, null, null)",
        ] {
            let refused = reader.batch_execute(&format!("select {call}")).await.unwrap_err().to_string();
            assert!(refused.contains("act"), "{call}: {refused}");
        }
        drop((web, reader, owner));
        let roles = [format!("{role}_login"), role.clone(), format!("{role}_worker"), format!("{role}_reader")];
        drop(f);
        admin_at_the_end(roles.iter().map(|role| cluster::drop_roles(&[role])).collect());
    });
}

/// Another session holds the row of the job, and moves it to another table while the change waits.
#[test]
fn a_change_waits_for_a_job_that_moves() {
    run::<Postgres, _>(async |f: Postgres| {
        let db = f.database();
        let worker = worker(db).await;
        let id = enqueue(&f, job()).await;
        let mut mover = f.client().await;
        mover.begin().await;
        let moved = format!(
            "with gone as (delete from jobs.ready where id = {id} returning *)
             insert into jobs.running (id, run_at, enqueued_at, lease, flags, priority, attempt, max_attempts, crashes, worker, kind, queue, args)
             select id, run_at, enqueued_at, 1, flags, priority, 1, max_attempts, crashes, '{worker}', kind, queue, args from gone"
        );
        mover.execute(&moved).await.unwrap();
        let mut client = f.client().await;
        let mut watcher = f.client().await;
        let cancel = async { tokio::time::timeout(PATIENCE, client.cancel(One(id))).await.unwrap().unwrap() };
        let waits = "select count(*) as number from pg_stat_activity where wait_event_type = 'Lock' and query like '%jobs.act(%'";
        let commit = async {
            while watcher.number(waits).await == 0 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            mover.commit().await;
        };
        let (changed, ()) = tokio::join!(cancel, commit);
        assert_eq!((changed, state(db, id).await), (1, JobState::Cancelled));
    });
}

/// Until the application's transaction ends, workers pass over its jobs and do not wait for it.
#[test]
fn an_open_change_stops_no_worker() {
    run::<Postgres, _>(async |f: Postgres| {
        let db = f.database();
        let worker = worker(db).await;
        let running = claimed(&f, worker, job()).await;
        let ids = enqueue_all(&f, vec![job(); 3]).await;
        let mut client = f.client().await;
        client.begin().await;
        assert_eq!(client.cancel(Many(vec![running.lease.job, ids[0]])).await.unwrap(), 2);
        assert_eq!(client.reschedule(One(ids[1]), chrono::Utc::now() + HOUR).await.unwrap(), 1);
        let claimed = tokio::time::timeout(PATIENCE, claim(db, worker, 9)).await.unwrap();
        assert_eq!(crate::bench::ids(&claimed), [ids[2]]);
        let finished = tokio::time::timeout(PATIENCE, finish(db, &running, DONE)).await.unwrap();
        assert!(!finished, "its row is locked");
        client.rollback().await;
        assert!(finish(db, &running, DONE).await);
        assert_eq!(claim(db, worker, 9).await.len(), 2);
    });
}

#[test]
fn changes_of_the_same_jobs_do_not_deadlock() {
    run::<Postgres, _>(async |f: Postgres| {
        let db = f.database();
        for _ in 0..10 {
            let tagged = with(|job| job.tags = vec!["x".to_owned()]);
            let held = tagged.clone().rule(Limit::new("l", 1).key("x")).unwrap();
            let ids = enqueue_all(&f, vec![vec![tagged, held]; 10].concat()).await;
            let mut backwards = ids.clone();
            backwards.reverse();
            let (mut one, mut other, mut third) = (f.client().await, f.client().await, f.client().await);
            let mut fourth = f.client().await;
            let later = chrono::Utc::now() + HOUR;
            let (one, other, third, fourth, all) = tokio::join!(
                one.cancel(Many(ids.clone())),
                other.cancel(Many(backwards)),
                third.retry(Tag("x")),
                fourth.reschedule(Tag("x"), later),
                db.operator.cancel_enqueued_before(later, 100, "ann"),
            );
            let cancelled = one.unwrap() + other.unwrap() + all.unwrap();
            let (retried, _) = (third.unwrap(), fourth.unwrap());
            assert!((20..=20 + retried).contains(&cancelled), "{cancelled} were cancelled, {retried} retried");
            db.operator.cancel_enqueued_before(later, 100, "ann").await.unwrap();
        }
    });
}

/// An operator's command may wait for a running or ended job. Until then it has locked no job for which the
/// application would wait, whatever the order of its ids.
#[test]
fn an_operator_and_an_application_do_not_deadlock() {
    run::<Postgres, _>(async |f: Postgres| {
        let db = f.database();
        let worker = worker(db).await;
        let states = async |ids: [JobId; 2]| [state(db, ids[0]).await, state(db, ids[1]).await];
        for (action, second_has_begun) in [
            (Action::Cancel, false),
            (Action::Cancel, true),
            (Action::Retry, false),
            (Action::Retry, true),
            (Action::Delete, false),
            (Action::Delete, true),
        ] {
            let of_application = if action == Action::Cancel { Action::Cancel } else { Action::Retry };
            let begun = async |job| {
                let claimed = claimed(&f, worker, job).await;
                if action != Action::Cancel {
                    finish(db, &claimed, discard()).await;
                }
                claimed.lease.job
            };
            let first = begun(job()).await;
            let second = if second_has_begun { begun(job()).await } else { enqueue(&f, later(HOUR)).await };
            let (mut client, mut watcher) = (f.client().await, f.client().await);
            client.begin().await;
            assert_eq!(change(&mut client, &of_application, first).await, 1, "{action:?}");
            let both = [second, first];
            let operator = db.operator.act(&action, &both, "ann");
            let waits = "select count(*) as number from pg_stat_activity
                         where wait_event_type = 'Lock' and datname = current_database()";
            let application = async {
                while watcher.number(waits).await == 0 {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
                let changed = tokio::time::timeout(PATIENCE, change(&mut client, &of_application, second)).await;
                assert_eq!(changed.expect("the application waits for the operator"), 1, "{action:?}");
                client.commit().await;
            };
            let (answers, ()) = tokio::join!(operator, application);
            answers.unwrap();
            match action {
                Action::Cancel => assert_eq!(states([first, second]).await, [JobState::Cancelled; 2]),
                Action::Retry => assert_eq!(states([first, second]).await, [JobState::Available; 2]),
                _ => assert!(db.operator.show(first).await.unwrap().is_none(), "it was deleted after its retry"),
            }
            db.operator.act(&Action::Delete, &[first, second], "ann").await.unwrap();
        }
    });
}

async fn change(client: &mut Box<dyn Client>, action: &Action, job: JobId) -> usize {
    match action {
        Action::Cancel => client.cancel(One(job)).await.unwrap(),
        _ => client.retry(One(job)).await.unwrap(),
    }
}

#[test]
fn jobs_of_a_later_version_are_left_alone() {
    run::<Postgres, _>(async |f: Postgres| {
        let db = f.database();
        let worker = worker(db).await;
        let mut client = f.client().await;
        let next = (KNOWN + 1) & !KNOWN;
        for bit in [KNOWN, next] {
            let id = enqueue(&f, later(HOUR)).await;
            client.execute(&format!("update jobs.ready set flags = {bit} & ~1 where id = {id}")).await.unwrap();
            let running = claimed(&f, worker, with(|job| job.priority = 9)).await.lease.job;
            client.execute(&format!("update jobs.running set flags = {bit} & ~1 where id = {running}")).await.unwrap();
            let changed = if bit == KNOWN { 1 } else { 0 };
            for id in [id, running] {
                assert_eq!(client.cancel(One(id)).await.unwrap(), changed, "flags {bit}");
                assert_eq!(client.retry(One(id)).await.unwrap(), changed, "flags {bit}");
            }
            assert_eq!(client.reschedule(One(id), chrono::Utc::now() + HOUR).await.unwrap(), changed, "flags {bit}");
            client.execute("delete from jobs.ready").await.unwrap();
        }
    });
}
