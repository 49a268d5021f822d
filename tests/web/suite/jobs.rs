//! The jobs of the tests.

use diesel_jobs::worker::Registry;
use diesel_jobs::{JobContext, job};

/// Succeeds, and reports its progress.
#[job(queue = "mail")]
pub(crate) async fn send_mail(to: String, ctx: &JobContext) -> Result<String, std::io::Error> {
    ctx.progress(1, 2, "connected");
    Ok(format!("sent to {to}"))
}

/// Fails permanently.
#[job(queue = "billing", max_attempts = 1)]
pub(crate) async fn charge(order: i64, #[arg(secret)] card: String) -> Result<(), std::io::Error> {
    Err(std::io::Error::other(format!("the bank refused order {order} with card {card}")))
}

/// Fails, and is tried again later.
#[job(queue = "reports", max_attempts = 5, backoff = "fixed(1h)")]
pub(crate) async fn report(day: String) -> Result<(), std::io::Error> {
    Err(std::io::Error::other(format!("there are no figures of {day}")))
}

pub(crate) fn registry() -> Registry {
    support::registry!(SendMail, Charge, Report)
}
