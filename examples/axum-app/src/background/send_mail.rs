//! `send_mail`: sends a customer a mail about an order.

use diesel_jobs::prelude::*;

use crate::mailer::{Mailer, MailerError};

/// Sends one mail to the provider. A worker may die after the provider has accepted it and before the job is completed.
/// Then it is sent again with the same idempotency key, by which the provider recognises it.
#[job(queue = "mail", max_attempts = 10, timeout = "30s")]
pub async fn send_mail(
    order_id: i64,
    address: &str,
    template: &str,
    State(mailer): State<Mailer>,
    ctx: &JobContext,
) -> Result<(), MailerError> {
    mailer.send(&ctx.idempotency_key(), order_id, address, template).await
}
