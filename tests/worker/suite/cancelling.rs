//! An operator cancels a running job. Its handler is cancelled long before its finish would be refused.

use std::time::Duration;

use diesel_jobs::operator::Operated;
use diesel_jobs::{JobContext, JobState, State, job};
use support::{Db, Probe, Running, registry};

/// Watches only its cancellation token.
#[job]
fn listens(ctx: &JobContext, State(probe): State<Probe>) {
    probe.say(ctx, "began");
    while !ctx.is_cancelled() {
        std::thread::sleep(Duration::from_millis(5));
    }
    probe.say(ctx, "was told");
}

async fn a_handler_whose_job_is_cancelled_is_told_to_stop(db: Db) {
    let (probe, mut events) = Probe::new();
    let id = db.enqueue(Listens {}).await;
    let worker = Running::start(db.worker(registry![Listens]).state(probe).lease(Duration::from_secs(10)));
    events.expect("began").await;
    assert_eq!(db.database().operator.cancel(id).await.unwrap(), Operated::Done);
    // The worker does not stop, and the job has no timeout. So only the lost lease can end the wait.
    events.expect("was told").await;
    assert_eq!(db.record(id).await.state, JobState::Cancelled);
    let stats = worker.stop().await;
    assert_eq!((stats.completed, stats.leases_lost), (0, 1));
}

support::on_each_database! {
    a_handler_whose_job_is_cancelled_is_told_to_stop,
}
