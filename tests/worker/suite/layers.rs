//! Layers are called before and after the handler of each form, in order, and add values to its attempt.

mod ends;
mod jobs;

use std::ops::ControlFlow;

use diesel_jobs::handler::{FailureKind, Layer, States, TypeKey};
use diesel_jobs::{JobContext, JobError, JobState, Outcome};
use support::{Db, Events, Probe, Running, registry};

use jobs::{Form, Hidden, Names, Notes, Once, Then, Url, forms, jobs};

/// What a layer does besides telling the test that it is called.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Does {
    #[default]
    Nothing,
    Refuse,
    Snooze,
    PanicBefore,
    HangBefore,
    ForgetNames,
    PanicAfterwards,
    HangAfterwards,
    /// Waits in `after` until the test continues it.
    WaitAfterwards,
}

/// Tells the test each call, and adds its name to the names that the handler gets.
struct Telling {
    name: &'static str,
    does: Does,
    probe: Probe,
}

impl Telling {
    async fn afterwards(&self) {
        match self.does {
            Does::PanicAfterwards => panic!("no more patience"),
            Does::HangAfterwards => std::future::pending().await,
            Does::WaitAfterwards => self.probe.pass().await,
            _ => {}
        }
    }
}

impl Layer for Telling {
    fn provides(&self) -> Vec<TypeKey> {
        vec![TypeKey::of::<Names>()]
    }

    async fn before(&self, ctx: &JobContext, states: &mut States) -> Result<ControlFlow<Outcome>, JobError> {
        self.probe.say(ctx, format!("{} before", self.name));
        if self.does != Does::ForgetNames {
            let outer = ctx.state::<Names>().map_or(String::new(), |names| format!("{} ", names.0));
            states.insert(Names(outer + self.name));
        }
        match self.does {
            Does::Refuse => Err(JobError::msg("not today")),
            Does::Snooze => Ok(ControlFlow::Break(Outcome::Snooze(std::time::Duration::from_secs(3600)))),
            Does::PanicBefore => panic!("no patience"),
            Does::HangBefore => std::future::pending().await,
            _ => Ok(ControlFlow::Continue(())),
        }
    }

    async fn after(&self, ctx: &JobContext, outcome: &Outcome) {
        let names = ctx.state::<Names>().map_or("nothing", |names| &names.0);
        self.probe.say(ctx, format!("{} after {outcome:?} of {names}", self.name));
        self.afterwards().await;
    }

    async fn error(&self, ctx: &JobContext, error: &JobError) {
        self.probe.say(ctx, format!("{} error {}: {error:#}", self.name, error.kind()));
        self.afterwards().await;
    }
}

/// A worker with an outer layer, and an inner one that does this.
fn start(db: &Db, inner: Does) -> (Running, Events) {
    start_with(db, Does::Nothing, inner, |worker| worker)
}

fn start_with(
    db: &Db,
    outer: Does,
    inner: Does,
    set: impl FnOnce(diesel_jobs::WorkerBuilder) -> diesel_jobs::WorkerBuilder,
) -> (Running, Events) {
    let (probe, events) = Probe::new();
    let layer = |name, does| Telling { name, does, probe: probe.clone() };
    let worker = db.worker(jobs(db)).state(Names("the worker's".to_owned())).state(Once::default());
    let worker = worker.state(Url(db.url().to_owned())).layer(layer("outer", outer)).layer(layer("inner", inner));
    (Running::start(set(worker.state(probe)).slots(1)), events)
}

async fn expect_all(events: &mut Events, form: &Form, texts: &[&str]) {
    for text in texts {
        let event = events.next().await;
        assert!(event.text.contains(text), "{}: expected {text:?}, got {event:?}", form.name);
    }
}

async fn layers_are_called_around_the_handler_the_inner_one_last_and_first(db: Db) {
    let (worker, mut events) = start(&db, Does::Nothing);
    for form in forms(&db) {
        let then = [
            (Then::Complete, JobState::Completed, "after Complete of the worker's outer inner"),
            (Then::Output, JobState::Completed, "after CompleteWith("),
            (Then::Snooze, JobState::Scheduled, "after Snooze(3600s)"),
            (Then::Cancel, JobState::Cancelled, "after Cancel(\"gone\")"),
            (Then::Fail, JobState::Discarded, "error error: changed my mind"),
            (Then::Panic, JobState::Discarded, "error panic: panicked at"),
        ];
        for (then, state, end) in then {
            let id = db.enqueue((form.job)(then)).await;
            expect_all(&mut events, &form, &["outer before", "inner before", "runs with the worker's outer inner"])
                .await;
            expect_all(&mut events, &form, &[&format!("inner {end}"), &format!("outer {end}")]).await;
            db.await_state(id, state).await;
        }
    }
    worker.stop().await;
    assert_eq!(events.rest().len(), 0);
}

async fn a_timeout_and_undecodable_arguments_are_errors(db: Db) {
    for form in forms(&db).into_iter().filter(|form| form.has_timeout) {
        let (worker, mut events) = start(&db, Does::Nothing);
        db.enqueue((form.job)(Then::Hang)).await;
        let end = ["inner error timeout: took longer", "outer error timeout: took longer"];
        expect_all(&mut events, &form, &["outer before", "inner before", "runs"]).await;
        worker.handle().end_time_limits();
        expect_all(&mut events, &form, &end).await;
        worker.stop().await;
    }
    let (worker, mut events) = start(&db, Does::Nothing);
    for form in forms(&db) {
        let table = if db.is_postgres() { "jobs.ready" } else { "jobs.job" };
        let row = format!("('{}', 'default', 0, 1, '{{\"then\": 7}}')", form.name);
        db.execute(&format!("insert into {table} (kind, queue, attempt, max_attempts, args) values {row}")).await;
        let end = ["inner error undecodable: the stored arguments", "outer error undecodable"];
        expect_all(&mut events, &form, &["outer before", "inner before"]).await;
        expect_all(&mut events, &form, &end).await;
    }
    worker.stop().await;
}

/// The end of a plain handler is written afterwards, so that no other attempt begins before.
async fn after_a_transactional_handler_its_transaction_is_committed(db: Db) {
    let (worker, mut events) = start(&db, Does::WaitAfterwards);
    for form in forms(&db) {
        let id = db.enqueue((form.job)(Then::Complete)).await;
        expect_all(&mut events, &form, &["outer before", "inner before", "runs", "inner after"]).await;
        let state = db.record(id).await.state;
        assert_eq!(state == JobState::Completed, form.is_transactional, "{}: {state}", form.name);
        events.open(1);
        expect_all(&mut events, &form, &["outer after"]).await;
        db.await_state(id, JobState::Completed).await;
    }
    worker.stop().await;
}

async fn a_conflict_runs_the_handler_again_but_not_the_layers(db: Db) {
    let (worker, mut events) = start(&db, Does::Nothing);
    let form = forms(&db).into_iter().find(|form| form.name == "in_async_transaction").unwrap();
    db.enqueue((form.job)(Then::Conflict)).await;
    expect_all(&mut events, &form, &["outer before", "inner before", "runs", "runs", "inner after", "outer after"])
        .await;
    worker.stop().await;
}

async fn a_handler_that_completes_its_job_itself_succeeds(db: Db) {
    let (worker, mut events) = start(&db, Does::Nothing);
    for form in forms(&db).into_iter().filter(|form| !form.is_transactional) {
        let id = db.enqueue((form.job)(Then::CompleteIn)).await;
        expect_all(&mut events, &form, &["outer before", "inner before", "runs", "inner after Complete"]).await;
        expect_all(&mut events, &form, &["outer after Complete"]).await;
        db.await_state(id, JobState::Completed).await;
    }
    worker.stop().await;
}

async fn errors_and_reasons_reach_layers_without_the_values_of_secret_arguments(db: Db) {
    let (worker, mut events) = start(&db, Does::Nothing);
    for form in forms(&db) {
        for then in [Then::FailWithSecret, Then::CancelWithSecret] {
            let id = db.enqueue((form.job)(then)).await;
            expect_all(&mut events, &form, &["outer before", "inner before", "runs"]).await;
            let mut texts = vec![events.next().await.text, events.next().await.text];
            db.await_state(id, if then == Then::FailWithSecret { JobState::Discarded } else { JobState::Cancelled })
                .await;
            texts.push(db.failures(id).await.remove(0).message);
            for text in texts {
                assert!(text.contains("the token") && !text.contains(jobs::SECRET), "{}: {text}", form.name);
            }
        }
    }
    worker.stop().await;
}

/// A layer that adds nothing.
struct Silent;

impl Layer for Silent {}

async fn the_worker_starts_only_if_a_layer_or_the_worker_gives_each_state(db: Db) {
    let (probe, mut events) = Probe::new();
    let worker = |probe: &Probe| db.worker(registry![Notes]).state(probe.clone());
    let refused = worker(&probe).layer(Silent).build().unwrap_err().to_string();
    assert!(refused.contains("`notes`") && refused.contains("Names>"), "{refused}");
    let telling = Telling { name: "outer", does: Does::Nothing, probe: probe.clone() };
    let refused = db.worker(registry![Notes, Hidden]).state(probe.clone()).layer(telling).build();
    let refused = refused.unwrap_err().to_string();
    assert!(refused.contains("`hidden`") && refused.contains("jobs::Names"), "{refused}");
    let telling = Telling { name: "outer", does: Does::Nothing, probe: probe.clone() };
    let running = Running::start(worker(&probe).layer(telling));
    let id = db.enqueue(Notes {}).await;
    for text in ["outer before", "outer", "outer after Complete of outer"] {
        assert_eq!(events.expect(text).await.job, id);
    }
    running.stop().await;
}

async fn failure_of(db: &Db, id: diesel_jobs::JobId, kind: FailureKind) -> String {
    db.await_state(id, JobState::Discarded).await;
    let failure = db.failures(id).await.remove(0);
    assert_eq!(failure.kind, kind, "{failure:?}");
    failure.message
}

support::on_each_database! {
    layers_are_called_around_the_handler_the_inner_one_last_and_first,
    a_timeout_and_undecodable_arguments_are_errors,
    after_a_transactional_handler_its_transaction_is_committed,
    a_handler_that_completes_its_job_itself_succeeds,
    errors_and_reasons_reach_layers_without_the_values_of_secret_arguments,
    the_worker_starts_only_if_a_layer_or_the_worker_gives_each_state,
}

mod conflicts {
    support::on_postgres! { a_conflict_runs_the_handler_again_but_not_the_layers }
    use super::a_conflict_runs_the_handler_again_but_not_the_layers;
}
