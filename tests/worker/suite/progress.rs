//! The progress that handlers report is stored while they run, and kept.

use diesel_jobs::operator::Progress;
use diesel_jobs::{JobContext, JobError, JobId, JobState, State, job};
use support::{Db, Probe, Running, registry, until};

#[job(max_attempts = 2, backoff = "fixed(1h)")]
async fn import(#[arg(secret)] password: String, ctx: &JobContext, State(probe): State<Probe>) -> Result<(), JobError> {
    for done in 0..1000 {
        ctx.progress(done, 1000, format!("file {done}\0 with {password}"));
    }
    ctx.progress(7, 1000, format!("file 7\0 with {password}"));
    probe.say(ctx, "reported");
    probe.pass().await;
    ctx.progress(8, 1000, "x".repeat(10_000));
    Err(JobError::msg("the disk is full"))
}

#[job]
fn counts(ctx: &JobContext) {
    ctx.progress(1, 1, "done");
}

async fn progress(db: &Db, id: JobId) -> Option<Progress> {
    db.database().operator.progress(id).await.unwrap()
}

async fn await_progress(db: &Db, id: JobId, done: u64) -> Progress {
    until("the report to be stored", async || progress(db, id).await.filter(|progress| progress.done == done)).await
}

async fn a_running_job_shows_its_newest_report_and_keeps_it(db: Db) {
    let (probe, mut events) = Probe::new();
    let id = db.enqueue(Import::new("hunter2")).await;
    let worker = Running::start(db.worker(registry![Import]).state(probe));
    events.next().await;
    let running = await_progress(&db, id, 7).await;
    assert_eq!((running.total, &*running.message), (1000, "file 7\u{2400} with [redacted]"));
    assert_eq!(db.show(id).await.0.state, JobState::Running);
    events.open(1);
    db.await_state(id, JobState::Retrying).await;
    let kept = await_progress(&db, id, 8).await;
    assert!(kept.message.len() <= 8192 && kept.message.ends_with("… (cut)"), "{}", kept.message.len());
    worker.stop().await;
}

async fn a_report_just_before_the_end_of_the_worker_is_stored(db: Db) {
    let id = db.enqueue(Counts).await;
    db.work(registry![Counts]).await;
    let progress = progress(&db, id).await.unwrap();
    assert_eq!((progress.done, progress.total, &*progress.message), (1, 1, "done"));
}

support::on_each_database! {
    a_running_job_shows_its_newest_report_and_keeps_it,
    a_report_just_before_the_end_of_the_worker_is_stored,
}
