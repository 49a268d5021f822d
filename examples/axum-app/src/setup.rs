//! What the worker needs beyond its jobs.

use diesel_jobs::WorkerBuilder;

use crate::mailer::Mailer;
use crate::pool::connect;
use crate::settings::database_url;

/// Mails wait for their provider, so many are under way at once; charges are work for the database.
const MAILS_AT_ONCE: usize = 16;
const CHARGES_AT_ONCE: usize = 4;
/// A mail holds its connection for a fraction of its time.
const MAILER_CONNECTIONS: usize = 4;

/// Gives the worker its mailer and its limits; `diesel_jobs::worker!` in `src/bin/worker.rs` calls it.
pub async fn setup_worker(worker: WorkerBuilder) -> anyhow::Result<WorkerBuilder> {
    let mailer = Mailer::new(connect(&database_url()?, MAILER_CONNECTIONS)?);
    Ok(worker.state(mailer).queue("mail", MAILS_AT_ONCE).queue("billing", CHARGES_AT_ONCE).serve("default"))
}
