//! What admission does beside other sessions, and broken forms of it, which the checks must notice.

use std::sync::Arc;
use std::time::Duration;

use diesel_async::{AsyncConnection, AsyncPgConnection, SimpleAsyncConnection};
use diesel_jobs_core::storage::{Action, Admission};
use diesel_jobs_core::{Finish, JobId, JobState, Keep, Limit, NewJob, Rate, RunAt, Sequence, Transition};
use diesel_jobs_storage::Database;
use futures_util::FutureExt as _;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::Postgres;
use crate::bench::*;
use crate::fixture::{Fixture, PATIENCE, Port as _, run};
use crate::limiting::{admit, check, limited};

async fn session(f: &Postgres) -> AsyncPgConnection {
    AsyncPgConnection::establish(&f.url).await.unwrap()
}

async fn permits(f: &Postgres) -> i64 {
    f.client().await.number("select count(*) as number from jobs.permit").await
}

#[test]
fn one_session_admits_at_a_time() {
    run::<Postgres, _>(async |f: Postgres| {
        let db = f.database();
        // The very first pass inserts the row that the others lock.
        enqueue(&f, limited("z")).await;
        assert_eq!(admit(db).await, 1);
        enqueue_all(&f, vec![limited("x"); 6]).await;
        let mut other = session(&f).await;
        other.batch_execute("begin; select jobs.admit(false)").await.unwrap();
        enqueue(&f, limited("y")).await;
        assert!(db.storage.admit(true).await.unwrap().is_busy, "it does not wait");
        other.batch_execute("commit").await.unwrap();
        assert_eq!(admit(db).await, 1);
        check(&f).await;
    });
}

/// In a new session, the server plans the statements of a pass, which takes ten times as long as the pass.
#[test]
fn a_new_session_plans_before_it_has_the_lock() {
    run::<Postgres, _>(async |f: Postgres| {
        let db = f.database();
        enqueue(&f, limited("x")).await;
        assert_eq!(admit(db).await, 1);
        let due = with(|job| job.run_at = RunAt::After(MINUTE));
        let ordered = job().rule(Sequence::new("orders")).unwrap();
        let rated = job().rule(Rate::new("calls", 1, MINUTE)).unwrap();
        enqueue_all(&f, vec![limited("x"), due.rule(Limit::new("later", 1)).unwrap(), ordered, rated]).await;
        // What a sweep would find: a job that is due, keys without a nudge, and a permit without a job.
        f.client().await.execute(&Postgres::passed(MINUTE)).await.unwrap();
        f.client().await.execute("delete from jobs.nudge; update jobs.permit set job_id = 0").await.unwrap();
        let tables = "select hashtext(json_build_array(
                (select json_agg(h order by h.id) from jobs.held h), (select json_agg(s) from jobs.permit s), (select json_agg(n) from jobs.nudge n),
                (select json_agg(r) from jobs.rate r), (select json_agg(a) from jobs.admission a)
            )::text)::bigint as number";
        let before = f.client().await.number(tables).await;
        let mut holder = session(&f).await;
        holder.batch_execute("begin; select from jobs.admission for update").await.unwrap();
        let mut new = session(&f).await;
        // In two parts, so that the texts do not find this statement.
        new.batch_execute(
            "do $$ begin
                assert (select is_busy from jobs.admit(true));
                assert exists (select from pg_backend_memory_contexts where name = 'CachedPlan' and ident like '%jobs.heads(names' || ', keys, floors)%');
                assert exists (select from pg_backend_memory_contexts where name = 'CachedPlan' and ident like '%limit most' || '_permits%');
            end $$",
        )
        .await
        .unwrap();
        assert_eq!(f.client().await.number(tables).await, before, "it changes nothing meanwhile");
        holder.batch_execute("rollback").await.unwrap();
        assert_eq!(db.storage.admit(true).await.unwrap().admitted, 4);
    });
}

/// The form that others had: it locks and counts in one statement, so that the count is older than the lock.
const AT_ONCE: &str = "with locked as materialized (select only_row from jobs.admission for no key update), moved as (
    delete from jobs.held where ctid = any(array(select pick.ctid from locked cross join lateral (
        select h.ctid from jobs.held h order by h.id limit greatest(2 - (select count(*) from jobs.permit), 0) for update skip locked
    ) pick)) returning *
), taken as (insert into jobs.permit (job_id, limit_name, limit_key) select id, limit_name, limit_key from moved)
insert into jobs.ready (id, kind, args, flags, rules) select id, kind, args, flags, rules from moved";

#[test]
fn a_count_in_the_statement_of_the_lock_admits_too_many_and_is_noticed() {
    run::<Postgres, _>(async |f: Postgres| {
        enqueue_all(&f, vec![limited("x"); 6]).await;
        let (mut one, mut other) = (session(&f).await, session(&f).await);
        one.batch_execute("insert into jobs.admission default values").await.unwrap();
        one.batch_execute(&format!("begin; {AT_ONCE}")).await.unwrap();
        let waiting = tokio::spawn(async move { other.batch_execute(AT_ONCE).await });
        let blocked = "select count(*) as number from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()";
        let mut client = f.client().await;
        while client.number(blocked).await == 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        one.batch_execute("commit").await.unwrap();
        waiting.await.unwrap().unwrap();
        assert_eq!(permits(&f).await, 4);
    });
}

#[test]
fn admission_needs_a_snapshot_per_statement() {
    run::<Postgres, _>(async |f: Postgres| {
        let refused =
            session(&f).await.batch_execute("begin isolation level repeatable read; select jobs.admit(true)").await;
        assert!(refused.unwrap_err().to_string().contains("READ COMMITTED"));
    });
}

/// The statement of the finish does not see the held job, which is committed before the finish is. So it must say that
/// a permit is free.
#[test]
fn a_finish_nudges_also_if_no_job_seems_to_be_held() {
    run::<Postgres, _>(async |f: Postgres| {
        let db = f.database();
        let worker = worker(db).await;
        let one = |key| job().rule(Limit::new("stripe", 1).key(key)).unwrap();
        for is_broken in [false, true] {
            if is_broken {
                let only_if_held = "create function only_if_held() returns trigger language plpgsql as $$ begin
                    if exists (select from jobs.held) then return new; end if; return null; end $$;
                    create trigger only_if_held before insert on jobs.nudge for each row execute function only_if_held()";
                f.client().await.execute(only_if_held).await.unwrap();
            }
            let key = if is_broken { "broken" } else { "right" };
            enqueue(&f, one(key)).await;
            assert_eq!(admit(db).await, 1);
            let first = claim(db, worker, 1).await.remove(0);
            let mut client = f.client().await;
            client.begin().await;
            client.complete_in(&context(&first)).await.unwrap();
            let second = enqueue(&f, one(key)).await;
            assert_eq!(admit(db).await, 0, "the permit is taken until the commit");
            client.commit().await;
            assert_eq!(admit(db).await, usize::from(!is_broken), "{key}");
            assert_eq!(db.storage.admit(true).await.unwrap().admitted, usize::from(is_broken), "a sweep finds it");
            assert_eq!(state(db, second).await, JobState::Available);
            let job = claim(db, worker, 1).await.remove(0);
            assert!(finish(db, &job, DONE).await);
            admit(db).await;
        }
        check(&f).await;
    });
}

#[test]
fn a_locked_or_refused_job_stops_no_other() {
    run::<Postgres, _>(async |f: Postgres| {
        let db = f.database();
        let ids = enqueue_all(&f, vec![limited("x"); 3]).await;
        let mut other = session(&f).await;
        other.batch_execute(&format!("begin; select from jobs.held where id = {} for update", ids[0])).await.unwrap();
        assert_eq!(admit(db).await, 2);
        other.batch_execute("rollback").await.unwrap();
        assert_eq!(state(db, ids[0]).await, JobState::Held, "the others were faster");
        check(&f).await;
        let refusing = "create function refuse() returns trigger language plpgsql as $$ begin
                if new.kind = 'b' then raise exception 'not this one'; end if; return new; end $$;
            create trigger refuse before insert on jobs.ready for each row execute function refuse()";
        other.batch_execute(refusing).await.unwrap();
        let bad = NewJob::raw("b", "{}").rule(Limit::new("bad", 1)).unwrap();
        enqueue_all(&f, vec![bad, limited("y"), limited("z")]).await;
        assert_eq!(admit(db).await, 2);
        check(&f).await;
    });
}

#[test]
fn sql_and_rust_make_the_same_key() {
    run::<Postgres, _>(async |f: Postgres| {
        let mut client = f.client().await;
        let texts = ["", "a", "é\u{7f}\u{1}\n\t\"\\/", "\u{1f600}", &"long".repeat(100), "null", "7"];
        for text in texts {
            let json = serde_json::to_string(text).unwrap();
            let ours =
                NewJob::raw("a", "{}").rule(Limit::new("s", 2).key(text).key(-7).key(true).key(None::<i32>)).unwrap();
            let ours = &ours.rules[0];
            let args = format!(r#"{{ "n":null, "i" : -7,"b": true, "t":{json} }}"#);
            let same = format!(
                "select count(*) as number from (select jobs.rule('a', $a${args}$a$, 2, '{{t,i,b,n}}', 's') as rule) made
                 where rule ->> 'key' = $a${}$a$ and rule ->> 'name' = 's' and rule #>> '{{rule,concurrency,most}}' = '2'",
                ours.key
            );
            assert_eq!(client.number(&same).await, 1, "{text:?}: {}", ours.key);
        }
        client
            .execute("select jobs.enqueue('a', '{\"x\": 1}', concurrency => 1, by => '{x}') from generate_series(1, 2)")
            .await
            .unwrap();
        assert_eq!(admit(f.database()).await, 1);
        for wrong in [
            "concurrency => 0",
            "concurrency => 10001",
            "by => '{x}'",
            "concurrency => 1, by => '{y}'",
            "concurrency => 1, limit_name => ''",
        ] {
            let sql = format!("select jobs.enqueue('a', '{{\"x\": 1}}', {wrong})");
            assert!(client.execute(&sql).await.is_err(), "{wrong}");
        }
    });
}

/// Without the tables of limits, jobs without a limit go through all their statements.
#[test]
fn jobs_without_a_limit_touch_no_table_of_limits() {
    run::<Postgres, _>(async |f: Postgres| {
        let db = f.database();
        let worker = worker(db).await;
        let away = ["held", "permit", "nudge", "rate", "fair_turn", "admission", "unique_key", "expiry"]
            .map(|table| format!("alter table jobs.{table} rename to {table}_away;"));
        f.client().await.execute(&away.concat()).await.unwrap();
        for (_, mut client) in f.clients().await {
            client.enqueue(job()).await.unwrap();
            client.enqueue_all(vec![job(); 9]).await.unwrap();
            let jobs = claim(db, worker, 10).await;
            let ends = [
                DONE,
                Transition::Complete(Keep::Nothing),
                retry_in(HOUR),
                discard(),
                cancel(),
                Transition::Snooze(HOUR),
                Transition::Release,
            ];
            for (job, end) in jobs.iter().zip(ends) {
                assert!(finish(db, job, end).await);
            }
            client.begin().await;
            client.complete_in(&context(&jobs[7])).await.unwrap();
            client.commit().await;
            let rest: Vec<Finish> = jobs[8..].iter().map(|job| Finish::new(job, DONE)).collect();
            assert_eq!(db.storage.finish_all(&rest).await.unwrap().len(), 2);
            let released = claim(db, worker, 10).await;
            assert!(finish(db, &released[0], DONE).await);
        }
    });
}

#[test]
fn an_enqueue_wakes_the_admitter_of_an_idle_worker() {
    run::<Postgres, _>(async |f: Postgres| {
        let db = f.database();
        let idle = worker(db).await;
        db.storage.set_idle(idle, true).await.unwrap();
        let (wake, admission, stop) = (Arc::new(Notify::new()), Arc::new(Notify::new()), CancellationToken::new());
        let listening = tokio::spawn({
            let (db, wake, admission, stop) = (f.again().await, wake.clone(), admission.clone(), stop.clone());
            async move { db.storage.listen(&["default".to_owned()], wake, admission, stop).await }
        });
        // At the start, as if something had been enqueued and set before.
        tokio::time::timeout(PATIENCE, wake.notified()).await.unwrap();
        tokio::time::timeout(PATIENCE, admission.notified()).await.unwrap();
        // When the second hint arrives, all of the first enqueue have arrived.
        for _ in 0..2 {
            enqueue(&f, job()).await;
            tokio::time::timeout(PATIENCE, wake.notified()).await.unwrap();
        }
        assert!(admission.notified().now_or_never().is_none());
        let id: JobId = enqueue(&f, limited("x")).await;
        tokio::time::timeout(PATIENCE, admission.notified()).await.unwrap();
        admit(db).await;
        for action in [Action::Cancel, Action::Retry, Action::Discard, Action::Retry, Action::Delete] {
            db.operator.act(&action, &[id], "ann").await.unwrap();
            tokio::time::timeout(PATIENCE, admission.notified()).await.unwrap_or_else(|_| panic!("{action:?}"));
        }
        stop.cancel();
        listening.await.unwrap();
    });
}

/// It can never be claimed: its attempt cannot be increased.
#[test]
fn a_job_that_is_set_apart_gives_its_permit_back_and_keeps_its_limit() {
    run::<Postgres, _>(async |f: Postgres| {
        let db = f.database();
        let worker = worker(db).await;
        let ids = enqueue_all(&f, vec![limited("x"); 3]).await;
        assert_eq!(admit(db).await, 2);
        let mut client = f.client().await;
        client.execute(&format!("update jobs.ready set attempt = 32767 where id = {}", ids[0])).await.unwrap();
        assert_eq!(claim(db, worker, 9).await.len(), 1);
        check(&f).await;
        assert_eq!(admit(db).await, 1, "the third one has its permit");
        let put_back = client.number("select jobs.put_back(number) as number from jobs.dead_letter").await;
        let job = record(db, JobId(put_back)).await;
        assert_eq!((job.state, job.rules), (JobState::Held, record(db, ids[2]).await.rules));
        assert_eq!(admit(db).await, 0, "the limit is full");
        check(&f).await;
    });
}

#[test]
fn sql_enqueues_into_a_sequence() {
    run::<Postgres, _>(async |f: Postgres| {
        let (db, mut client) = (f.database(), f.client().await);
        let two = "select jobs.enqueue('a', '{\"o\": 7}', sequence => 'halt', by => '{o}', limit_name => 'orders') from generate_series(1, 2)";
        client.execute(two).await.unwrap();
        assert_eq!(admit(db).await, 1);
        let same = "select count(*) as number from jobs.job where flags = 5 and rules #>> '{0,rule,sequence,on_discard}' = 'halt' and rules #>> '{0,key}' = '[7]'";
        assert_eq!(client.number(same).await, 2);
        for wrong in ["sequence => 'stop'", "sequence => 'halt', concurrency => 2", "sequence => 'halt', by => '{x}'"] {
            let sql = format!("select jobs.enqueue('a', '{{\"o\": 7}}', {wrong})");
            assert!(client.execute(&sql).await.is_err(), "{wrong}");
        }
    });
}

/// A person has deleted jobs, and left their permits.
#[test]
fn permits_without_a_job_are_found() {
    run::<Postgres, _>(async |f: Postgres| {
        let db = f.database();
        let worker = worker(db).await;
        let ids = enqueue_all(&f, vec![limited("x"); 4]).await;
        assert_eq!(admit(db).await, 2);
        assert_eq!(claim(db, worker, 1).await.len(), 1);
        f.client().await.execute("delete from jobs.ready; delete from jobs.running").await.unwrap();
        assert_eq!(admit(db).await, 0, "both permits are taken");
        assert_eq!(db.storage.admit(true).await.unwrap().admitted, 2, "a sweep frees them");
        assert_eq!(state(db, ids[3]).await, JobState::Available);
        check(&f).await;
        assert_eq!(db.storage.admit(true).await.unwrap().admitted, 0);
        assert_eq!(permits(&f).await, 2, "permits of jobs stay");
    });
}

/// How many entries of `jobs.held` all sessions that have ended have read. Waits for the end of all others.
async fn entries_read(f: &Postgres) -> i64 {
    let mut client = f.client().await;
    let others = "select count(*) as number from pg_stat_activity
        where datname = current_database() and backend_type = 'client backend' and pid <> pg_backend_pid()";
    while client.number(others).await > 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    // Before version 15, the counts that a server shows may be half a second old.
    if client.number("select current_setting('server_version_num')::bigint as number").await < 150_000 {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    let read = "select (seq_tup_read + (
            select sum(idx_tup_read) from pg_stat_user_indexes i where i.relid = t.relid
        ))::bigint as number from pg_stat_user_tables t where relid = 'jobs.held'::regclass";
    client.number(read).await
}

/// It is beside 200,000 jobs of another key, which come first and may not start.
#[test]
fn a_pass_beside_many_jobs_that_may_not_start_is_short() {
    run::<Postgres, _>(async |f: Postgres| {
        let client = async |sql: &str| f.client().await.execute(sql).await.unwrap();
        // Its autovacuum would read it, too.
        client("alter table jobs.held set (autovacuum_enabled = false)").await;
        client("insert into jobs.queue (name, paused) values ('paused', true)").await;
        for (queue, later) in [("paused", false), ("default", true)] {
            let many = format!(
                "insert into jobs.held (kind, args, queue, priority, run_at, rules, limit_name, limit_key, most, later)
                 select 'a', '{{}}', '{queue}', 9, clock_timestamp() + case when {later} then interval '1 hour' else interval '0' end,
                        '[{{\"name\":\"stripe\",\"key\":\"[\\\"x\\\"]\",\"rule\":{{\"concurrency\":{{\"most\":2}}}}}}]', 'stripe', '[\"x\"]', 2, {later}
                 from generate_series(1, 100000)"
            );
            client(&many).await;
        }
        let pass = async |db: &Database, sweeps: bool, key: String| {
            enqueue_all(&f, vec![limited("x"), limited(&key)]).await;
            let found = db.storage.admit(sweeps).await.unwrap();
            assert_eq!(found.admitted, 1, "{key}: {found:?}");
        };
        for round in 0..3 {
            pass(&f.again().await, true, format!("{round}")).await;
            let (before, db) = (entries_read(&f).await, f.again().await);
            for number in 0..4 {
                pass(&db, false, format!("{round} {number}")).await;
            }
            drop(db);
            let each = (entries_read(&f).await - before) / 4;
            // It reads 2,000 entries, or some thousands more if it was due for a sweep. Without an index it would read
            // all.
            assert!(each < 50_000, "a pass reads {each} entries");
        }
        check(&f).await;
    });
}

#[test]
fn a_held_job_that_has_a_permit_already_starts() {
    run::<Postgres, _>(async |f: Postgres| {
        let db = f.database();
        let ids = enqueue_all(&f, vec![limited("x"); 3]).await;
        // Somebody has made an available job held, and has left its permit.
        let permit = format!(
            "insert into jobs.permit (job_id, limit_name, limit_key) select id, limit_name, limit_key from jobs.held where id = {}",
            ids[0]
        );
        f.client().await.execute(&permit).await.unwrap();
        let found = db.storage.admit(false).await.unwrap();
        assert_eq!((found.admitted, found.refused), (1, 0), "{found:?}");
        // It has one permit and not two, so a sweep finds a free one.
        assert_eq!(db.storage.admit(true).await.unwrap().admitted, 1);
        check(&f).await;
    });
}

#[test]
fn a_pass_that_finds_nothing_writes_nothing() {
    run::<Postgres, _>(async |f: Postgres| {
        let db = f.database();
        for sweeps in [true, false] {
            let nothing =
                Admission { holds: sweeps.then_some(false), failures: sweeps.then_some(0), ..Admission::default() };
            assert_eq!(db.storage.admit(sweeps).await.unwrap(), nothing);
            // A pass that locks the row inserts it first.
            assert_eq!(f.client().await.number("select count(*) as number from jobs.admission").await, 0);
        }
    });
}
