//! The worker's settings, in addition to its jobs.

use diesel_jobs::WorkerBuilder;

use crate::mailer::Mailer;
use crate::pool::connect;
use crate::settings::database_url;

/// Jobs that send mails wait for the provider, so many run at the same time. Charges are work for the database, so few
/// do.
const MAILS_AT_ONCE: usize = 16;
const CHARGES_AT_ONCE: usize = 4;
/// Fewer than the mails at once, because a mail uses its connection only for a fraction of its time.
const MAILER_CONNECTIONS: usize = 4;

/// Gives the worker its mailer and its slots. `diesel_jobs::worker!` in `src/bin/worker.rs` calls it.
pub async fn setup_worker(worker: WorkerBuilder) -> anyhow::Result<WorkerBuilder> {
    let mailer = Mailer::new(connect(&database_url()?, MAILER_CONNECTIONS)?);
    Ok(worker.state(mailer).queue("mail", MAILS_AT_ONCE).queue("billing", CHARGES_AT_ONCE).serve("default"))
}
