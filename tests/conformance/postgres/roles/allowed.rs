//! Everything that a role is for, statement by statement, until one is refused. The owner makes the preparations.

use std::time::Duration;

use diesel_jobs_core::EventsSince;
use diesel_jobs_core::history::{Fold, HistoryBatch, HistoryRow, WorkCounts, WorkFilter};
use diesel_jobs_core::storage::{
    Action, Asked, Claim, JobFilter, NewSchedule, Objectives, RescanReason, RescuePolicy, RetentionSetting, STEP,
    ScheduledJob, StoredSchedules, Transacted, Waiting, WorkerInfo, preview,
};
use diesel_jobs_core::{
    CatchUp, ClaimedJob, DiscardRule, Finish, JobState, Keep, NewJob, Output, Traceparent, Transition, WorkerId,
};
use diesel_jobs_storage::Database;

use super::Roles;
use crate::bench::*;
use crate::client::{Client, Which};
use crate::fixture::{Act, Fixture, Port as _};
use crate::postgres::Postgres;
use crate::transacting::transaction;

type Clients = Vec<(&'static str, Box<dyn Client>)>;

/// Returns from the function, with the name of the statement that failed.
macro_rules! step {
    ($name:expr, $does:expr) => {
        match $does.await {
            Ok(answer) => answer,
            Err(error) => return Some(format!("{}: {error}", $name)),
        }
    };
}

/// The same for declarations, each of which may be refused.
macro_rules! declared {
    ($name:expr, $does:expr) => {
        if let Some((_, error)) = step!($name, $does).refused.first() {
            return Some(format!("{}: {error}", $name));
        }
    };
}

mod limits;

/// A job whose arguments are stored in `jobs.payload`.
fn large() -> NewJob {
    NewJob::raw("a", format!("\"{}\"", "x".repeat(5000)))
}

/// Empties the tables. Returns an idle worker, so that every enqueue sends a notification.
async fn anew(roles: &Roles) -> WorkerId {
    let mut owner = roles.f().client().await;
    owner
        .execute(
            "delete from jobs.ready; delete from jobs.running; delete from jobs.finished; delete from jobs.payload;
         delete from jobs.job_error; delete from jobs.dead_letter; delete from jobs.worker; delete from jobs.schedule;
         delete from jobs.installation; delete from jobs.sample; delete from jobs.held; delete from jobs.permit; delete from jobs.nudge; delete from jobs.unique_key",
        )
        .await
        .unwrap();
    let db = roles.f().database();
    let sleeper = worker(db).await;
    db.storage.set_idle(sleeper, true).await.unwrap();
    sleeper
}

pub(super) async fn enqueueing(roles: &Roles, clients: &mut Clients) -> Option<String> {
    anew(roles).await;
    for (name, client) in clients {
        step!(name, client.enqueue(with(|job| job.tags = vec!["tag".to_owned()])));
        step!(name, client.enqueue(large()));
        let trace = Traceparent::parse("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
        step!(name, client.enqueue(with(|job| job.traceparent = trace)));
        step!(name, client.enqueue_all(vec![job(), large(), later(HOUR)]));
        step!(name, client.enqueue(crate::limiting::limited("x")));
        step!(name, client.execute("select jobs.enqueue('a', concurrency => 2)"));
        let unique = |job: NewJob| job.unique(diesel_jobs_core::Unique::new()).unwrap();
        step!(name, client.enqueue_all(vec![job(), unique(job()), unique(crate::limiting::limited("x"))]));
        step!(name, client.execute("select jobs.enqueue('a', unique_by => '{}')"));
        step!(name, client.enqueue(with(|job| job.expires = Some(HOUR))));
        step!(name, client.execute("select jobs.enqueue('a', expires => '1 hour')"));
        step!(name, client.execute("select jobs.enqueue('a')"));
        let id = step!(name, client.enqueue(job()));
        step!(name, client.reschedule(Which::One(id), chrono::Utc::now() + HOUR));
        step!(name, client.cancel(Which::One(id)));
        step!(name, client.retry(Which::One(id)));
        step!(
            name,
            client.execute(&format!("select jobs.reschedule({id}, now()), jobs.cancel({id}), jobs.retry({id})"))
        );
        step!(
            name,
            client.execute(
                "select id, kind, queue, state, priority, attempt, max_attempts, run_at, enqueued_at, claimed_at, finished_at
                 from jobs.job"
            )
        );
        step!(
            name,
            client.execute(
                "select jobs.enqueue(kind => 'a', args => to_json(repeat('x', 5000)), queue => 'q', priority => 1,
                     run_at => now() + interval '1 hour', max_attempts => 3, tags => array['tag'])"
            )
        );
    }
    None
}

pub(super) async fn working(roles: &Roles, db: &Database, clients: &mut Clients) -> Option<String> {
    let f = roles.f();
    let (storage, operator) = (&db.storage, &db.operator);
    let sleeper = anew(roles).await;
    step!("check_schema", storage.check_schema());

    let id = WorkerId::generate();
    let info = WorkerInfo { queues: vec!["default".into()], ..WorkerInfo::new(id, HOUR) };
    step!("register", storage.register(&info));
    step!("register again", storage.register(&info));
    let mut heartbeat = step!("open_heartbeat", storage.open_heartbeat(id));
    assert!(step!("heartbeat", heartbeat.beat(false, HOUR)).is_some());
    step!("set_idle", storage.set_idle(id, true));
    for waiting in [ANY_TIME, Waiting::Held, Waiting::Token] {
        step!("waiting_queues", storage.waiting_queues(waiting));
    }
    step!("workers", operator.workers());
    step!("overrides", storage.overrides());
    step!("pause_queue", operator.pause_queue("elsewhere", "ada", None));
    step!("resume_queue", operator.resume_queue("elsewhere", "ada"));
    step!("set_slots", operator.set_slots("elsewhere", Some(1), "ada"));
    step!("pause_kind", operator.pause_kind("elsewhere", "ada", None));
    step!("resume_kind", operator.resume_kind("elsewhere", "ada"));
    let kept = RetentionSetting { kind: None, state: JobState::Cancelled, keep: Keep::For(HOUR) };
    step!("set_retention", operator.set_retention(&kept, "ada"));
    step!("unset_retention", operator.unset_retention(None, JobState::Cancelled, "ada"));
    step!("ask_worker", operator.ask_worker(id, Asked::Quiet, "ada"));
    step!("running", operator.running(id));
    let schedule = NewSchedule {
        name: "mine".to_owned(),
        kind: "a".to_owned(),
        expression: "0 0 2 * * *".to_owned(),
        timezone: "UTC".to_owned(),
        catch_up: CatchUp::Skip,
        job: ScheduledJob::default(),
    };
    step!("add_schedule", operator.add_schedule(&schedule, "ada"));
    step!("list_schedules", operator.list_schedules());
    step!("pause_schedule", operator.pause_schedule("mine", "ada", None));
    step!("resume_schedule", operator.resume_schedule("mine", "ada"));
    step!("remove_schedule", operator.remove_schedule("mine", "ada"));
    step!("listen", clients[0].1.execute("listen jobs; unlisten jobs"));

    // Each way in which a job can be enqueued.
    for (name, client) in clients.iter_mut() {
        step!(name, client.enqueue(job()));
        step!(name, client.enqueue_all(vec![job(), large()]));
    }
    let wanted = |slots| wants(id, &[("default", slots)]);
    for waiting in [ANY_TIME, Waiting::Held, Waiting::Token] {
        step!("next_due", storage.next_due(&wanted(1), waiting));
    }
    step!("rescue_is_due", storage.rescue_is_due());
    step!("poll", storage.poll(&wanted(1), HOUR));
    let mut claimed = step!("claim", storage.claim(&Claim { bypass_limit: true, ..wanted(100) }));
    assert!(claimed.len() >= 6, "{}", claimed.len());
    step!("leases", storage.leases(id, None));

    // A job that cannot be claimed, because its id is that of a running job.
    let repeated = claimed[0].lease.job;
    let plant = format!("insert into jobs.ready (id, kind, queue, args) values ({repeated}, 'a', 'twice', '{{}}')");
    f.client().await.execute(&plant).await.unwrap();
    assert_eq!(step!("set_apart", storage.claim(&wants(id, &[("twice", 1)]))).len(), 0);

    // Each way in which an attempt can end.
    let mut next = || claimed.pop().expect("enough were enqueued");
    let finish = |job: ClaimedJob, transition| [Finish::new(&job, transition)];
    if let Some(problem) = limits::limits(f, db, id).await {
        return Some(problem);
    }
    step!("complete", storage.finish_all(&finish(next(), DONE)));
    let output = Transition::CompleteWith(Keep::For(HOUR), Output::new("x"));
    let with_output = finish(next(), output);
    step!("complete with an output", storage.finish_all(&with_output));
    assert!(step!("end", operator.end(with_output[0].lease.job)).unwrap().output.is_some());
    let gone = finish(next(), Transition::Complete(Keep::Nothing));
    step!("complete and keep nothing", storage.finish_all(&gone));
    step!("retry after a failure", storage.finish_all(&finish(next(), retry_in(Duration::ZERO))));
    step!("discard", storage.finish_all(&finish(next(), discard())));
    for (name, connection, body) in Postgres::provided() {
        let [job] = &step!("claim", storage.claim(&wanted(1)))[..] else { panic!("the retried one and others wait") };
        let act = Act::new(name, Ok(Transition::Snooze(Duration::ZERO)));
        match storage.transact(transaction(&(name, connection, body), job, act)).await {
            Transacted::Committed(_) => {}
            other => return Some(format!("transact: {other:?}")),
        }
    }
    for (name, client) in clients.iter_mut() {
        let [job] = &step!("claim", storage.claim(&wanted(1)))[..] else { panic!("the snoozing ones wait") };
        client.begin().await;
        let completed = client.complete_in(&context(job)).await;
        if completed.is_err() {
            client.rollback().await;
        }
        step!(name, async { completed });
        client.commit().await;
        enqueue(f, crate::bench::job()).await;
    }

    // Maintenance.
    step!("rescan", storage.rescan(&wanted(1), RescanReason::Requested));
    let dead = mortal(f.database()).await;
    let job = claimed_by_owner(f, dead).await;
    tokio::time::sleep(Duration::from_millis(5)).await;
    let rescued = step!("rescue", storage.rescue(RescuePolicy { max_crashes: 2, ..POLICY }));
    assert_eq!((&rescued.returned[..], rescued.quarantined_due), (&[job.lease.job][..], true));
    let quarantined = step!(
        "claim_quarantined",
        storage.claim(&Claim { quarantined_at: 1, only_quarantined: true, ..wants(id, &[("mine", 1)]) })
    );
    assert_eq!(quarantined.first().map(|quarantined| quarantined.lease.job), Some(job.lease.job));
    let asleep = claimed_by_owner(f, sleeper).await;
    let expired = Transition::Discard { failure: failure("no"), keep: Keep::For(Duration::ZERO) };
    f.database().storage.finish_all(&finish(asleep, expired)).await.unwrap();
    assert_eq!(step!("prune", storage.prune(10)), 1);

    let declared = |expression: &str| diesel_jobs_core::storage::DeclaredSchedule {
        name: "nightly".into(),
        expression: expression.into(),
        timezone: "UTC".into(),
        catch_up: CatchUp::Last,
    };
    declared!("declare_schedules", storage.schedules(&[declared("0 0 2 * * *")]));
    declared!("declare_schedules", storage.schedules(&[declared("0 0 3 * * *")]));
    let rule = crate::discarding::rule();
    declared!("declare_discard_rules", storage.declare_discard_rules(&["a".into()], std::slice::from_ref(&rule)));
    let rules = crate::limiting::limited("x").rules;
    for changed in [DiscardRule { priority: 8, ..rule.clone() }, DiscardRule { rules, expires: Some(HOUR), ..rule }] {
        declared!("declare_discard_rules", storage.declare_discard_rules(&["a".into()], &[changed]));
        let discarded = claimed_by_owner(f, id).await;
        let job = discarded.lease.job;
        step!("discard", storage.finish_all(&finish(discarded, discard())));
        assert_eq!(failures(f.database(), job).await.len(), 1, "the job that follows was not refused");
    }
    declared!("declare_discard_rules", storage.declare_discard_rules(&["a".into()], &[]));
    let StoredSchedules { all: schedules, now, .. } = step!("schedules", storage.schedules(&[]));
    assert!(step!("tick", storage.tick(&schedules[0], now, &[crate::bench::job(), large()])));

    step!("list", operator.list_all(&JobFilter::default(), 10));
    let waiting = enqueue(f, later(HOUR)).await;
    step!("show", operator.show(waiting));
    step!("retry", operator.retry(waiting));
    step!("cancel", operator.cancel(waiting));
    step!("retry what was cancelled", operator.retry(waiting));
    // Each action on waiting and on ended jobs, by their ids and on all that match.
    let later = Action::Reschedule(chrono::Utc::now() + HOUR);
    for action in [Action::Reprioritise(1), Action::Move("mine".to_owned()), later, Action::RunNow, Action::Discard] {
        step!(action.as_str(), operator.act(&action, &[waiting], "ada"));
    }
    step!("rerun", operator.act(&Action::Rerun, &[waiting], "ada"));
    step!("delete", operator.act(&Action::Delete, &[waiting], "ada"));
    let mine = JobFilter { queues: vec!["mine".to_owned()], ..JobFilter::default() };
    step!("preview", preview(&**operator, &Action::Delete, &mine));
    let first = step!("start_operation", operator.start_operation(&Action::Delete, &mine, "ada"));
    while step!("step_operation", operator.step_operation(None, STEP)).is_some() {}
    step!("operation", operator.operation(first));
    let second = step!("start_operation", operator.start_operation(&Action::Retry, &mine, "ada"));
    step!("cancel_operation", operator.cancel_operation(second, "ada"));
    step!("failures", operator.failures(10));
    step!("audit", operator.audit(None, 10));
    step!("why", operator.why(waiting));
    step!("stats", operator.stats());
    step!("sample_jobs", storage.count_jobs());
    step!("sample", operator.sample());
    let counts = WorkCounts { completed: 1, ..WorkCounts::default() };
    let rows = vec![HistoryRow { queue: "q".into(), kind: "k".into(), counts }];
    let batch = HistoryBatch { id: uuid::Uuid::now_v7(), middle: std::time::Instant::now(), rows };
    step!("record_history", storage.record_history(&batch));
    let fold = Fold { from_minutes: 1, to_minutes: 15, after: Duration::ZERO };
    step!("fold_history", storage.fold_history(fold, 10));
    step!("prune_history", storage.prune_history(Duration::ZERO, 10));
    step!("series", operator.series(HOUR, HOUR, &WorkFilter::default()));
    step!("rates", operator.rates(HOUR));
    step!("leased", operator.leased(None, 10));
    step!("dead_rows", operator.dead_rows());
    let findings = step!("examine", operator.examine(Objectives::default(), None));
    if let Some(denied) = findings.iter().find(|one| one.check == "sequence") {
        return Some(format!("examine: {}", denied.what));
    }
    step!("limits", operator.limits());
    step!("limit_keys", operator.limit_keys(None, 10));
    step!("rate_keys", operator.rate_keys(None, 10));
    // Twice, because the second one updates the row.
    for most in [1, 2] {
        assert!(step!("set_limit", operator.set_limit("mine", most, "ada", None)));
    }
    step!("limit_settings", operator.limit_settings());
    step!("reset_limit", operator.reset_limit("mine", "ada"));
    let left = "insert into jobs.permit (job_id, limit_name, limit_key) values (987654321, 'mine', '[]');
                insert into jobs.unique_key (name, key, job_id, started) values ('a', '[]', 987654321, false)";
    f.client().await.execute(left).await.unwrap();
    step!("release_permit", operator.release_permit(diesel_jobs_core::JobId(987_654_321), "ada"));
    step!("release_key", operator.release_key(diesel_jobs_core::JobId(987_654_321), "ada"));
    step!("count_halted", operator.count_halted());
    let place = step!("events", operator.events(&EventsSince::default())).next;
    step!("events", operator.events(&place));
    step!("dead_letters", operator.dead_letters());
    // Twice, because for the first freeze there is no row to update.
    for _ in 0..2 {
        assert!(step!("freeze", operator.freeze("somebody", "for a reason")));
        assert!(step!("installation", storage.check_schema()).frozen.is_some());
        assert!(step!("thaw", operator.thaw("somebody")));
    }
    step!("cancel_enqueued_before", operator.cancel_enqueued_before(now + chrono::TimeDelta::days(1), 100, "ada"));
    step!("forget_missed_ticks", operator.forget_missed_ticks("ada"));
    step!("deregister", storage.deregister(id));
    None
}

/// A job that the owner enqueues and that this worker claims.
async fn claimed_by_owner(f: &Postgres, worker: WorkerId) -> ClaimedJob {
    let id = enqueue(f, with(|job| (job.queue, job.priority) = ("mine".into(), 9))).await;
    let mut jobs = f.database().storage.claim(&wants(worker, &[("mine", 1)])).await.unwrap();
    assert_eq!(ids(&jobs), [id]);
    jobs.remove(0)
}
