//! Programs that declare a schedule, or what is enqueued for discarded jobs, differently run side by side: what is
//! stored stays while a live worker declares it. What the database refuses holds up nothing else.

use std::sync::Arc;

use diesel_jobs::handler::Discarded;
use diesel_jobs::worker::Registry;
use diesel_jobs::{JobContext, State, Worker, job};
use support::{Db, Probe, Rounds, Running, registry};

/// The program of the first version.
mod old {
    #[diesel_jobs::job(cron = "0 2 * * *")]
    pub(super) async fn report() {}
}

#[job(cron = "0 3 * * *")]
async fn report() {}

#[job]
async fn held(ctx: &JobContext, State(probe): State<Probe>) {
    probe.say(ctx, "started");
    probe.pass().await;
}

/// A worker of this program, and the rounds of its services.
async fn start(db: &Db, registry: Registry) -> (Running, Arc<Rounds>) {
    let rounds = Arc::new(Rounds::default());
    let worker = Worker::builder(db.again().await.storage).registry(registry).recorder(rounds.clone());
    (Running::start(worker), rounds)
}

async fn stands(db: &Db) -> String {
    db.conn().await.texts("select expression as text from jobs.schedule").await.concat()
}

async fn await_schedule(db: &Db, expression: &str) {
    support::until(expression, async || (stands(db).await == expression).then_some(())).await;
}

/// The worker has offered its declaration more than once.
async fn offered(rounds: &Rounds) {
    rounds.more("declare_schedules", 2).await;
}

async fn an_older_program_that_starts_beside_a_newer_one_turns_no_schedule_back(db: Db) {
    let (newer, _) = start(&db, registry![Report]).await;
    await_schedule(&db, "0 3 * * *").await;
    let (older, rounds) = start(&db, registry![old::Report]).await;
    offered(&rounds).await;
    assert_eq!(stands(&db).await, "0 3 * * *");
    older.stop().await;
    assert_eq!(stands(&db).await, "0 3 * * *");
    newer.stop().await;
}

async fn the_program_that_remains_after_a_deploy_or_a_rollback_decides(db: Db) {
    let (older, _) = start(&db, registry![old::Report]).await;
    await_schedule(&db, "0 2 * * *").await;
    let (newer, rounds) = start(&db, registry![Report]).await;
    offered(&rounds).await;
    assert_eq!(stands(&db).await, "0 2 * * *");
    older.stop().await;
    await_schedule(&db, "0 3 * * *").await;
    // The older program comes back, and the newer one ends.
    let (older, rounds) = start(&db, registry![old::Report]).await;
    offered(&rounds).await;
    assert_eq!(stands(&db).await, "0 3 * * *");
    newer.stop().await;
    await_schedule(&db, "0 2 * * *").await;
    older.stop().await;
}

async fn a_worker_that_drains_decides_no_more(db: Db) {
    let (probe, mut events) = Probe::new();
    db.enqueue(Held {}).await;
    let older = Running::start(db.worker(registry![old::Report, Held]).state(probe));
    events.expect("started").await;
    await_schedule(&db, "0 2 * * *").await;
    let (newer, rounds) = start(&db, registry![Report]).await;
    offered(&rounds).await;
    assert_eq!(stands(&db).await, "0 2 * * *");
    older.handle().shutdown();
    await_schedule(&db, "0 3 * * *").await;
    events.open(1);
    older.ended().await;
    newer.stop().await;
}

// What is enqueued for discarded jobs is declared, too.

#[job]
async fn page(_discarded: Discarded) {}

#[job]
async fn alert_ops(_discarded: Discarded) {}

/// The program before its jobs had `on_discarded`.
mod oldest {
    #[diesel_jobs::job]
    pub(super) async fn charge() {}
}

/// The program of the first version with it.
mod earlier {
    #[diesel_jobs::job(on_discarded = super::Page)]
    pub(super) async fn charge() {}
}

#[job(on_discarded = AlertOps)]
async fn charge() {}

async fn rule(db: &Db) -> String {
    db.conn().await.texts("select enqueues as text from jobs.on_discarded where kind = 'charge'").await.concat()
}

async fn await_rule(db: &Db, enqueues: &str) {
    support::until(enqueues, async || (rule(db).await == enqueues).then_some(())).await;
}

/// The worker has offered its rules more than once.
async fn rules_offered(rounds: &Rounds) {
    rounds.more("declare_discard_rules", 2).await;
}

async fn an_older_program_that_starts_beside_a_newer_one_turns_no_rule_back(db: Db) {
    let (newer, _) = start(&db, registry![Charge]).await;
    await_rule(&db, "alert_ops").await;
    for before in [registry![oldest::Charge], registry![earlier::Charge]] {
        let (older, rounds) = start(&db, before).await;
        rules_offered(&rounds).await;
        assert_eq!(rule(&db).await, "alert_ops");
        older.stop().await;
        assert_eq!(rule(&db).await, "alert_ops");
    }
    newer.stop().await;
}

async fn the_program_that_remains_after_a_deploy_or_a_rollback_decides_about_rules(db: Db) {
    let (older, _) = start(&db, registry![earlier::Charge]).await;
    await_rule(&db, "page").await;
    let (newer, rounds) = start(&db, registry![Charge]).await;
    rules_offered(&rounds).await;
    assert_eq!(rule(&db).await, "page");
    older.stop().await;
    await_rule(&db, "alert_ops").await;
    // The program without a rule comes back, and the newer one ends.
    let (oldest, rounds) = start(&db, registry![oldest::Charge]).await;
    rules_offered(&rounds).await;
    assert_eq!(rule(&db).await, "alert_ops");
    newer.stop().await;
    await_rule(&db, "").await;
    // A rule that is new is stored at once, and ends with the last program that declares it.
    let (newer, _) = start(&db, registry![Charge]).await;
    await_rule(&db, "alert_ops").await;
    newer.stop().await;
    await_rule(&db, "").await;
    oldest.stop().await;
}

async fn a_worker_that_drains_decides_no_more_about_rules(db: Db) {
    let (probe, mut events) = Probe::new();
    db.enqueue(Held {}).await;
    let older = Running::start(db.worker(registry![earlier::Charge, Held]).state(probe));
    events.expect("started").await;
    await_rule(&db, "page").await;
    let (newer, rounds) = start(&db, registry![Charge]).await;
    rules_offered(&rounds).await;
    assert_eq!(rule(&db).await, "page");
    older.handle().shutdown();
    await_rule(&db, "alert_ops").await;
    events.open(1);
    older.ended().await;
    newer.stop().await;
}

#[job(cron = "* * * * * *", catch_up = "all")]
async fn a_fine_one() {}

#[job(on_discarded = Page)]
async fn a_fine_charge() {}

async fn await_two_ticks(db: &Db) {
    let two = "select count(*) as number from (select 1 from jobs.job where kind = 'a_fine_one' limit 2) as ticks";
    db.await_number(2, two).await;
}

/// A trigger of the application refuses what this program declares about `report` and `charge`.
async fn refuse(db: &Db) {
    for (table, column, name) in [("schedule", "name", "report"), ("on_discarded", "kind", "charge")] {
        let sql = if db.is_postgres() {
            format!(
                "create function refuse_{name}() returns trigger language plpgsql as $$ begin raise 'not {name}'; end $$;
                 create trigger refuse_{name} before insert or update on jobs.{table} for each row when (new.{column} = '{name}')
                 execute function refuse_{name}()"
            )
        } else {
            format!(
                "create trigger refuse_{name} before insert on jobs.{table} when new.{column} = '{name}'
                 begin select raise(abort, 'not {name}'); end"
            )
        };
        db.execute(&sql).await;
    }
}

async fn accept(db: &Db) {
    for (table, name) in [("schedule", "report"), ("on_discarded", "charge")] {
        let of = if db.is_postgres() { format!(" on jobs.{table}") } else { String::new() };
        db.execute(&format!("drop trigger refuse_{name}{of}")).await;
    }
}

async fn a_declaration_that_is_refused_holds_up_no_other_and_is_offered_again(db: Db) {
    refuse(&db).await;
    // What is refused is declared first and last.
    let (worker, rounds) = start(&db, registry![Charge, AFineCharge, Report, AFineOne]).await;
    await_two_ticks(&db).await;
    let fine = "select count(*) as number from jobs.on_discarded where kind = 'a_fine_charge'";
    db.await_number(1, fine).await;
    rules_offered(&rounds).await;
    assert_eq!(rule(&db).await, "");
    assert_eq!(db.number("select count(*) as number from jobs.schedule where name = 'report'").await, 0);
    accept(&db).await;
    await_rule(&db, "alert_ops").await;
    db.await_number(1, "select count(*) as number from jobs.schedule where name = 'report'").await;
    worker.stop().await;
}

/// A transaction of the application has locked the row, or has inserted one that is not committed.
async fn a_declaration_that_waits_for_a_lock_holds_up_no_other(db: Db) {
    db.execute("insert into jobs.on_discarded values ('charge', 'other', 'default', 0, 1, '{}', 'x')").await;
    let mut application = db.conn().await;
    application.execute("begin").await;
    application.execute("select from jobs.on_discarded for update").await;
    application
        .execute("insert into jobs.schedule (name, kind, expression, timezone, catch_up) values ('report', 'report', '@daily', 'UTC', 'skip')")
        .await;
    let (worker, rounds) = start(&db, registry![Charge, AFineCharge, Report, AFineOne]).await;
    await_two_ticks(&db).await;
    db.await_number(1, "select count(*) as number from jobs.on_discarded where kind = 'a_fine_charge'").await;
    rules_offered(&rounds).await;
    assert_eq!(rule(&db).await, "other");
    application.execute("rollback").await;
    await_rule(&db, "alert_ops").await;
    db.await_number(1, "select count(*) as number from jobs.schedule where name = 'report'").await;
    worker.stop().await;
}

support::on_each_database! {
    an_older_program_that_starts_beside_a_newer_one_turns_no_rule_back,
    the_program_that_remains_after_a_deploy_or_a_rollback_decides_about_rules,
    a_worker_that_drains_decides_no_more_about_rules,
    a_declaration_that_is_refused_holds_up_no_other_and_is_offered_again,
    an_older_program_that_starts_beside_a_newer_one_turns_no_schedule_back,
    the_program_that_remains_after_a_deploy_or_a_rollback_decides,
    a_worker_that_drains_decides_no_more,
}

mod locked {
    use super::a_declaration_that_waits_for_a_lock_holds_up_no_other;

    support::on_postgres! { a_declaration_that_waits_for_a_lock_holds_up_no_other }
}
