//! A kind is renamed: programs with the old and with the new name run side by side.

use std::time::Duration;

use diesel_jobs::enqueue::IntoNewJob as _;
use diesel_jobs::handler::Discarded;
use diesel_jobs::worker::Registry;
use diesel_jobs::{JobContext, JobError, JobId, JobState, State, job};
use support::{Db, Events, Probe, Running, registry};

/// The program before the kinds were renamed.
mod old {
    use diesel_jobs::{JobContext, State, job};
    use support::Probe;

    #[job]
    pub(super) async fn send_welcome(user_id: i64, ctx: &JobContext, State(probe): State<Probe>) {
        probe.say(ctx, format!("old {} {user_id}", ctx.kind()));
    }

    #[job(kind = "pay")]
    pub(super) async fn charge(cents: i64, ctx: &JobContext, State(probe): State<Probe>) {
        probe.say(ctx, format!("old {} {cents}", ctx.kind()));
    }

    #[job(concurrency(limit = 1, by(account)), unique(by(account, number)))]
    pub(super) async fn sync(account: i64, number: i64, ctx: &JobContext, State(probe): State<Probe>) {
        probe.say(ctx, format!("old {account} {number}"));
        probe.pass().await;
    }

    #[job(cron = "* * * * * *", catch_up = "all")]
    pub(super) async fn tidy(ctx: &JobContext, State(probe): State<Probe>) {
        probe.say(ctx, "old");
    }
}

#[job(kind = "greet", aliases("send_welcome"))]
async fn greet(user_id: i64, ctx: &JobContext, State(probe): State<Probe>) {
    probe.say(ctx, format!("new {} {user_id}", ctx.kind()));
}

#[derive(serde::Deserialize)]
struct FirstArguments {
    cents: i64,
}

fn from_v1(first: FirstArguments) -> Charge {
    Charge::new(first.cents, "EUR".to_owned())
}

#[job(aliases("pay", "bill"), version = 2, upgrade = from_v1)]
async fn charge(cents: i64, currency: String, ctx: &JobContext, State(probe): State<Probe>) {
    probe.say(ctx, format!("new {} {cents} {currency}", ctx.kind()));
}

#[job(kind = "mirror", aliases("sync"), concurrency(limit = 1, by(account)), unique(by(account, number)))]
async fn mirror(account: i64, number: i64, ctx: &JobContext, State(probe): State<Probe>) {
    probe.say(ctx, format!("new {account} {number}"));
    probe.pass().await;
}

#[job(kind = "clean", aliases("tidy"), cron = "* * * * * *", catch_up = "all")]
async fn clean(ctx: &JobContext, State(probe): State<Probe>) {
    probe.say(ctx, "new");
}

fn old_program() -> Registry {
    registry![old::SendWelcome, old::Charge, old::Sync]
}

fn new_program() -> Registry {
    registry![Greet, Charge, Mirror]
}

/// What the handlers said of these jobs, sorted.
async fn said(events: &mut Events, jobs: usize) -> Vec<String> {
    let mut said = Vec::new();
    for _ in 0..jobs {
        said.push(events.next().await.text);
    }
    said.sort();
    said
}

async fn a_program_runs_the_jobs_of_its_aliases_which_keep_their_kind(db: Db) {
    let (probe, mut events) = Probe::new();
    let before = db.enqueue(old::SendWelcome::new(7)).await;
    let after = db.enqueue(Greet::new(8)).await;
    let worker = Running::start(db.worker(new_program()).state(probe));
    assert_eq!(said(&mut events, 2).await, ["new greet 8", "new send_welcome 7"]);
    for (id, kind) in [(before, "send_welcome"), (after, "greet")] {
        assert_eq!(db.await_state(id, JobState::Completed).await.kind, kind);
    }
    worker.stop().await;
}

async fn a_refusal_names_the_kind_and_not_its_alias(db: Db) {
    let refused = db.worker(registry![Charge]).build().unwrap_err().to_string();
    assert!(refused.starts_with("job `charge` ("), "{refused}");
}

/// The handler decodes the arguments of an alias as those of the same version of the kind.
async fn an_alias_covers_the_versions_that_the_job_covers(db: Db) {
    let (probe, mut events) = Probe::new();
    let stored = |kind: &'static str, args: &str| {
        let mut job = Charge::new(0, String::new()).into_new_job().unwrap();
        (job.kind, job.args) = (kind.into(), args.to_owned());
        job
    };
    let mut conn = db.conn().await;
    conn.enqueue(old::Charge::new(1)).await;
    for kind in ["bill", "charge"] {
        conn.enqueue(stored(kind, r#"{"cents": 2}"#)).await;
    }
    for kind in ["pay.v2", "bill.v2", "charge.v2"] {
        conn.enqueue(stored(kind, r#"{"cents": 3, "currency": "CHF"}"#)).await;
    }
    let unknown = conn.enqueue(stored("pay.v3", "{}")).await;
    let worker = Running::start(db.worker(new_program()).state(probe));
    assert_eq!(
        said(&mut events, 6).await,
        [
            "new bill 2 EUR",
            "new bill.v2 3 CHF",
            "new charge 2 EUR",
            "new charge.v2 3 CHF",
            "new pay 1 EUR",
            "new pay.v2 3 CHF"
        ]
    );
    worker.stop().await;
    assert_eq!(db.record(unknown).await.state, JobState::Available);
}

/// Enqueuers and workers of both programs, while one replaces the other.
async fn a_rolling_rename_strands_no_job_and_gives_none_to_a_program_that_cannot_decode_it(db: Db) {
    let (probe, mut events) = Probe::new();
    let old_worker = |probe: &Probe| Running::start(db.worker(old_program()).state(probe.clone()));
    let new_worker = |probe: &Probe| Running::start(db.worker(new_program()).state(probe.clone()));
    let enqueue = async |from: i64| {
        let mut conn = db.conn().await;
        for number in from..from + 10 {
            conn.enqueue(old::SendWelcome::new(number)).await;
            conn.enqueue(Greet::new(number)).await;
            conn.enqueue(old::Charge::new(number)).await;
            conn.enqueue(Charge::new(number, "CHF".to_owned())).await;
        }
    };
    // The new enqueuers are deployed before the new workers.
    let first = old_worker(&probe);
    enqueue(0).await;
    let mut ran = said(&mut events, 20).await;
    assert!(ran.iter().all(|ran| ran.starts_with("old send_welcome") || ran.starts_with("old pay ")), "{ran:?}");
    let second = new_worker(&probe);
    enqueue(10).await;
    ran.extend(said(&mut events, 60).await);
    first.stop().await;
    // An enqueuer of the old version is still there.
    enqueue(20).await;
    ran.extend(said(&mut events, 40).await);
    second.stop().await;
    assert!(events.rest().is_empty());
    let by_old: Vec<_> = ran.iter().filter(|ran| ran.starts_with("old ")).collect();
    assert!(by_old.iter().all(|ran| ran.starts_with("old send_welcome ") || ran.starts_with("old pay ")), "{by_old:?}");
    let decoded = |ran: &String| ran.starts_with("old ") || !ran.contains(" charge") || ran.ends_with("CHF");
    assert!(ran.iter().all(decoded), "{ran:?}");
    assert_eq!(db.number("select count(*) as number from jobs.job").await, 120);
    assert_eq!(db.number("select count(*) as number from jobs.job_error").await, 0);
}

/// The limit and the unique key have the oldest name of the kind, so jobs of both names exclude each other.
async fn jobs_of_both_names_share_unique_keys_and_limits(db: Db) {
    let (probe, mut events) = Probe::new();
    let first = db.enqueue(old::Sync::new(7, 1)).await;
    assert_eq!(db.enqueue(Mirror::new(7, 1)).await, first, "the unique key is taken");
    let second = db.enqueue(Mirror::new(7, 2)).await;
    assert_eq!(db.enqueue(old::Sync::new(7, 2)).await, second);
    if db.is_postgres() {
        // SQL composes the key of the kind that it is given, so it goes on with the oldest name.
        let sql =
            r#"select jobs.enqueue('sync', '{"account": 7, "number": 2}', unique_by => '{account,number}') as number"#;
        assert_eq!(db.number(sql).await, second.0);
    }
    let other = db.enqueue(Mirror::new(8, 1)).await;
    let workers = [old_program(), new_program()].map(|one| Running::start(db.worker(one).state(probe.clone())));
    let running: Vec<JobId> = vec![events.next().await.job, events.next().await.job];
    assert!(running.contains(&other), "another account is not delayed: {running:?}");
    let waiting = if running.contains(&first) { second } else { first };
    assert_eq!(db.record(waiting).await.state, JobState::Held, "one job of the account runs");
    events.open(3);
    assert_eq!(events.next().await.job, waiting);
    for id in [first, second, other] {
        db.await_state(id, JobState::Completed).await;
    }
    for worker in workers {
        worker.stop().await;
    }
}

const STANDS: &str = "select count(*) as number from jobs.schedule";
const TICKS: &str = "select count(*) as number from jobs.job where kind in ('tidy', 'clean')";
const TICKS_OF_ONE_TIME: &str =
    "select count(*) - count(distinct run_at) as number from jobs.job where kind in ('tidy', 'clean')";

/// Waits until there are this many more jobs of the schedule.
async fn more_ticks(db: &Db, more: i64) {
    let wanted = db.number(TICKS).await + more;
    support::until("more ticks", async || (db.number(TICKS).await >= wanted).then_some(())).await;
}

async fn a_renamed_schedule_stays_one_schedule_and_ticks_once(db: Db) {
    let (probe, _events) = Probe::new();
    let old_worker = Running::start(db.worker(registry![old::Tidy]).state(probe.clone()));
    more_ticks(&db, 2).await;
    let new_worker = Running::start(db.worker(registry![Clean]).state(probe.clone()));
    more_ticks(&db, 3).await;
    old_worker.stop().await;
    more_ticks(&db, 2).await;
    new_worker.stop().await;
    // After a rollback the old program continues.
    let old_worker = Running::start(db.worker(registry![old::Tidy]).state(probe));
    more_ticks(&db, 2).await;
    old_worker.stop().await;
    assert_eq!((db.number(STANDS).await, db.number(TICKS_OF_ONE_TIME).await), (1, 0));
}

#[job]
async fn alert(discarded: Discarded, ctx: &JobContext, State(probe): State<Probe>) {
    probe.say(ctx, format!("{} {} {}", discarded.kind, discarded.attempt, discarded.error));
}

#[job(aliases("before"), max_attempts = 3, backoff = "fixed(1ms)", timeout = "1h", on_discarded = Alert)]
async fn fails(stays: bool, ctx: &JobContext, State(probe): State<Probe>) -> Result<(), JobError> {
    if stays {
        probe.say(ctx, "stays");
        std::future::pending::<()>().await;
    }
    Err(JobError::msg("no"))
}

#[job(kind = "before")]
async fn failed_before(stays: bool) -> Result<(), JobError> {
    Err(JobError::msg(format!("the old program has no worker here: {stays}")))
}

async fn the_options_of_the_kind_hold_for_its_aliases(db: Db) {
    let (probe, mut events) = Probe::new();
    let mut of_program = FailedBefore::new(false).into_new_job().unwrap();
    of_program.max_attempts = 2;
    db.enqueue(of_program).await;
    let worker = Running::start(db.worker(registry![Fails, Alert]).state(probe));
    events.expect("before 2 no").await;
    let mut of_timeout = FailedBefore::new(true).into_new_job().unwrap();
    of_timeout.max_attempts = 1;
    db.enqueue(of_timeout).await;
    events.expect("stays").await;
    worker.handle().end_time_limits();
    let alerted = events.next().await.text;
    assert!(alerted.starts_with("before 1 ") && alerted.contains("3600s"), "{alerted}");
    worker.stop().await;
}

async fn a_pause_of_all_names_stops_both(db: Db) {
    let (probe, mut events) = Probe::new();
    let (registry, operator) = (new_program(), db.database().operator.clone());
    assert_eq!(registry.names("greet"), ["greet", "send_welcome"]);
    assert_eq!(registry.names("send_welcome"), ["greet", "send_welcome"]);
    assert_eq!(registry.names("pay"), ["charge", "bill", "pay"]);
    assert_eq!(registry.names("elsewhere"), ["elsewhere"]);
    for name in registry.names("greet") {
        operator.pause_kind(name, "ada", None).await.unwrap();
    }
    let waiting = [db.enqueue(old::SendWelcome::new(1)).await, db.enqueue(Greet::new(2)).await];
    db.enqueue(old::Charge::new(3)).await;
    let worker = Running::start(db.worker(registry).state(probe));
    events.expect("new pay 3 EUR").await;
    for id in waiting {
        assert_eq!(db.record(id).await.state, JobState::Available);
    }
    for name in new_program().names("send_welcome") {
        operator.resume_kind(name, "ada").await.unwrap();
    }
    assert_eq!(said(&mut events, 2).await, ["new greet 2", "new send_welcome 1"]);
    worker.stop().await;
}

mod conflicting {
    #[diesel_jobs::job(aliases("send_welcome"))]
    pub(super) fn hail() {}
}

#[job(kind = "send_welcome")]
fn another_welcome(ctx: &JobContext) {
    let _ = ctx;
}

async fn an_alias_that_another_job_has_is_refused_at_the_start(db: Db) {
    let refused = |registry: Registry| db.worker(registry).build().unwrap_err().to_string();
    for (registry, other) in [
        (registry![Greet, AnotherWelcome], "also the kind of `worker::aliases::AnotherWelcome`"),
        (registry![AnotherWelcome, Greet], "also the kind of `worker::aliases::AnotherWelcome`"),
        (registry![Greet, conflicting::Hail], "also an alias of `worker::aliases::conflicting::Hail`"),
    ] {
        let (probe, _events) = Probe::new();
        let said = db.worker(registry.clone()).state(probe).build().unwrap_err().to_string();
        for part in ["`send_welcome` is an alias of job `worker::aliases::Greet` (", other, "remove the alias"] {
            assert!(said.contains(part), "{part}: {said}");
        }
        assert_eq!(refused(registry), said);
    }
}

#[test]
fn the_registry_has_each_name_of_each_version_once() {
    assert_eq!(Registry::new().with::<Charge>().kinds(), ["bill", "bill.v2", "charge", "charge.v2", "pay", "pay.v2"]);
    assert_eq!(Registry::new().with::<Greet>().kinds(), ["greet", "send_welcome"]);
    let timeout = Registry::new().with::<Fails>().get("before").unwrap().options.timeout;
    assert_eq!(timeout, Some(Duration::from_secs(3600)));
}

support::on_each_database! {
    a_program_runs_the_jobs_of_its_aliases_which_keep_their_kind,
    a_refusal_names_the_kind_and_not_its_alias,
    an_alias_covers_the_versions_that_the_job_covers,
    a_rolling_rename_strands_no_job_and_gives_none_to_a_program_that_cannot_decode_it,
    jobs_of_both_names_share_unique_keys_and_limits,
    a_renamed_schedule_stays_one_schedule_and_ticks_once,
    the_options_of_the_kind_hold_for_its_aliases,
    a_pause_of_all_names_stops_both,
    an_alias_that_another_job_has_is_refused_at_the_start,
}
