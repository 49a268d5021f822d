//! Fills a database with jobs in every state.

use std::time::Duration;

use diesel_jobs::{Job as _, JobId, JobState};
use support::{Db, Running};

use crate::jobs::{Charge, Report, SendMail, registry};

/// The jobs of a test, by their states.
pub(crate) struct Seeded {
    pub(crate) completed: JobId,
    pub(crate) discarded: JobId,
    pub(crate) retrying: JobId,
    pub(crate) scheduled: JobId,
    pub(crate) available: JobId,
    pub(crate) cancelled: JobId,
}

/// A secret that must not stand on any page.
pub(crate) const CARD: &str = "4111-secret-card";

pub(crate) async fn seed(db: &Db) -> Seeded {
    let completed = db.enqueue(SendMail { to: "ada".to_owned() }).await;
    let discarded = db.enqueue(Charge { order: 7, card: CARD.to_owned() }).await;
    let retrying = db.enqueue(Report { day: "monday".to_owned() }).await;
    let worker = Running::start(db.worker(registry()));
    db.await_state(completed, JobState::Completed).await;
    db.await_state(discarded, JobState::Discarded).await;
    db.await_state(retrying, JobState::Retrying).await;
    worker.stop().await;
    let later = SendMail { to: "eve".to_owned() }.delay(Duration::from_secs(3600)).tags(["newsletter"]);
    let scheduled = db.enqueue(later).await;
    let cancelled = db.enqueue(SendMail { to: "bob".to_owned() }).await;
    db.database().operator.cancel(cancelled).await.unwrap();
    let available = db.enqueue(Charge { order: 8, card: CARD.to_owned() }).await;
    Seeded { completed, discarded, retrying, scheduled, available, cancelled }
}
