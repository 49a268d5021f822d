//! The steps of a worker for jobs with limits, rates, sequences, tenants and unique keys.

use diesel_jobs_core::storage::{Action, Operated, PassOn, WaitEnd};
use diesel_jobs_core::{Finish, Limit, OnFull, Rate, Sequence, Unique, WorkerId};
use diesel_jobs_storage::Database;

use crate::bench::*;
use crate::fixture::Fixture as _;
use crate::postgres::Postgres;

/// What a worker does for jobs with a limit. The owner enqueues them.
pub(super) async fn limits(f: &Postgres, db: &Database, worker: WorkerId) -> Option<String> {
    let mut limited = crate::limiting::limited("x");
    limited.queue = "limited".into();
    let ids = enqueue_all(f, vec![limited; 3]).await;
    // As at the very first pass.
    f.client().await.execute("delete from jobs.admission").await.unwrap();
    assert_eq!(step!("admit", db.storage.admit(true)).admitted, 2);
    // Enough permits are free for the pass to write a floor.
    let mut wide = job().rule(Limit::new("wide", 100).key(worker.0.to_string())).unwrap();
    wide.queue = "wide".into();
    enqueue(f, wide).await;
    assert_eq!(step!("admit a job with a high limit", db.storage.admit(false)).admitted, 1);
    let jobs = step!("claim", db.storage.claim(&wants(worker, &[("limited", 1)])));
    let finish = [Finish::new(&jobs[0], retry_in(HOUR))];
    step!("retry a job with a limit", db.storage.finish_all(&finish));
    // A queue that stays paused.
    let mut paused = crate::limiting::limited("paused");
    paused.queue = "limited and paused".into();
    enqueue(f, paused).await;
    step!("pause_queue", db.operator.pause_queue("limited and paused", "ada", None));
    step!("admit beside a pause", db.storage.admit(false));
    // A key of its own: each run of these steps needs its token.
    let rate = Rate::new("api", 6, MINUTE).key(worker.0.to_string());
    let rated = enqueue_all(f, vec![job().rule(rate).unwrap(); 2]).await;
    assert_eq!(step!("admit a job with a rate", db.storage.admit(true)).admitted, 1);
    let answers = step!("cancel jobs with a rate", db.operator.act(&Action::Cancel, &rated, "ada"));
    assert_eq!(answers, [Operated::Done; 2]);
    // A key at which a pass fails, and a job that cannot start now.
    let rate = Rate::new("broken", 6, MINUTE).key(worker.0.to_string());
    let mut refused = job().rule(Limit::new("refused", 1).key(worker.0.to_string())).unwrap();
    refused.queue = "refused".into();
    let failing = enqueue_all(f, vec![job().rule(rate).unwrap(), refused]).await;
    let broken = format!(
        "update jobs.held set rules = replace(rules::text, '\"limit\":6', '\"limit\":0')::json where id = {}; drop trigger if exists refuse on jobs.ready;
         create or replace function refuse() returns trigger language plpgsql as $$ begin raise exception using errcode = '55000'; end $$;
         create trigger refuse before insert on jobs.ready for each row when (new.queue = 'refused') execute function refuse()",
        failing[0]
    );
    f.client().await.execute(&broken).await.unwrap();
    assert_eq!(step!("leave a key out", db.storage.admit(false)).admitted, 0);
    f.client().await.execute("update jobs.admission_failure set next_at = now() where job_id = 0").await.unwrap();
    assert_eq!(step!("leave a key out again", db.storage.admit(false)).admitted, 0);
    f.client().await.execute("drop trigger refuse on jobs.ready").await.unwrap();
    let answers = step!("cancel jobs that cannot start", db.operator.act(&Action::Cancel, &failing, "ada"));
    assert_eq!(answers, [Operated::Done; 2]);
    f.client().await.execute("update jobs.admission_failure set next_at = now()").await.unwrap();
    step!("handle a key that was left out", db.storage.admit(true));
    // The tenant of the first job is another one each time, so its turn is written. A sweep deletes it after the end of
    // both jobs.
    let tenant = Limit::new("reports", 2).fair_by(worker.0.to_string());
    let mut fair = job().rule(tenant).unwrap();
    fair.queue = "fair".into();
    enqueue_all(f, vec![fair.clone(), fair]).await;
    step!("admit jobs with tenants", db.storage.admit(true));
    let jobs = step!("claim", db.storage.claim(&wants(worker, &[("fair", 2)])));
    let finishes: Vec<Finish> = jobs.iter().map(|job| Finish::new(job, DONE)).collect();
    step!("finish jobs with tenants", db.storage.finish_all(&finishes));
    step!("sweep turns", db.storage.admit(true));
    let mut next = job().rule(Limit::new("next", 1).key(worker.0.to_string())).unwrap();
    next.queue = "next".into();
    enqueue_all(f, vec![next.clone(), next]).await;
    step!("admit the first of two", db.storage.admit(true));
    let jobs = step!("claim", db.storage.claim(&wants(worker, &[("next", 1)])));
    let finishes: Vec<Finish> = jobs.iter().map(|job| Finish::new(job, DONE)).collect();
    step!("pass a permit on", db.storage.finish(&finishes, PassOn::Permits));
    // Without a right, the permit was freed instead.
    step!("admit the second of two", db.storage.admit(true));
    // The second job waits at one of its limits.
    let one = |name: &str| Limit::new(name, 1).key(worker.0.to_string());
    let sequence = Sequence::new("in turn").key(worker.0.to_string());
    let mut several = job().rule(one("one")).unwrap().rule(one("two")).unwrap();
    several.queue = "several".into();
    enqueue_all(f, vec![several.clone(), several.rule(sequence).unwrap()]).await;
    assert_eq!(step!("admit a job with several limits", db.storage.admit(false)).admitted, 1);
    assert_eq!(step!("admit a job whose turn has come", db.storage.admit(false)).admitted, 0);
    let mut unique = job().unique(Unique::new()).unwrap();
    unique.queue = "unique".into();
    enqueue(f, unique.clone()).await;
    let jobs = step!("claim", db.storage.claim(&wants(worker, &[("unique", 1)])));
    let finish = [Finish::new(&jobs[0], DONE)];
    step!("finish a unique job", db.storage.finish_all(&finish));
    let expires = with(|job| (job.queue, job.expires) = ("expiring".into(), Some(HOUR)));
    enqueue(f, expires).await;
    let jobs = step!("claim a job that expires", db.storage.claim(&wants(worker, &[("expiring", 1)])));
    let finish = [Finish::new(&jobs[0], DONE)];
    step!("finish a job that expires", db.storage.finish_all(&finish));
    step!("expire", db.storage.expire(HOUR));
    let answers = step!("cancel a held job", db.operator.act(&Action::Cancel, &ids, "ada"));
    assert_eq!(answers, [Operated::Done; 3]);
    without_waiting(f, db, worker).await
}

/// What a worker does for jobs that do not wait if their limit is full. One job of each key may start. Of the others
/// one is discarded, one is discarded because there is no token, and one takes the place of the first.
async fn without_waiting(f: &Postgres, db: &Database, worker: WorkerId) -> Option<String> {
    let key = worker.0.to_string();
    let limit = |rule: OnFull| Limit::new(rule.as_str(), 1).key(key.clone()).on_full(rule);
    let rate = Rate::new("a token", 1, HOUR).burst(1).key(key.clone()).on_full(OnFull::Discard);
    let mut jobs = [job().rule(limit(OnFull::Discard)), job().rule(limit(OnFull::CancelOldest)), job().rule(rate)]
        .map(Result::unwrap);
    jobs.iter_mut().for_each(|job| job.queue = "full".into());
    enqueue_all(f, [jobs.clone(), jobs].concat()).await;
    assert_eq!(step!("admit jobs that do not wait", db.storage.admit(false)).admitted, 3);
    assert_eq!(step!("end_full", db.storage.end_waiting(WaitEnd::LimitFull, POLICY.retention)).ended.len(), 3);
    None
}
