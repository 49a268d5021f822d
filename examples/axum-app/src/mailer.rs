//! The client of the mail provider.

use std::time::Duration;

use diesel::upsert::excluded;
use diesel::{ExpressionMethods as _, insert_into};
use diesel_async::RunQueryDsl as _;
use diesel_async::pooled_connection::deadpool::PoolError;

use crate::pool::Pool;
use crate::schema::mails;

/// Sends mails to a provider. Here that is a table, written on connections of its own, which tests can read. As with
/// any provider, a mail that was sent stays sent, even if the job that sent it fails.
#[derive(Clone)]
#[expect(missing_debug_implementations, reason = "a pool has none worth reading")]
pub struct Mailer {
    pool: Pool,
}

/// The provider did not accept the mail.
#[derive(Debug, thiserror::Error)]
pub enum MailerError {
    /// It could not be reached.
    #[error("the mail provider cannot be reached: {0}")]
    Unreachable(#[from] PoolError),
    /// It returned an error.
    #[error("the mail provider did not take the mail: {0}")]
    Refused(#[from] diesel::result::Error),
}

impl Mailer {
    /// How long the provider takes to answer.
    const LATENCY: Duration = Duration::from_millis(5);

    /// Creates a mailer that uses these connections.
    pub fn new(pool: Pool) -> Self {
        Self { pool }
    }

    /// Submits one mail. The provider sends one mail per idempotency key, even if it is submitted several times.
    pub async fn send(
        &self,
        idempotency_key: &str,
        order_id: i64,
        address: &str,
        template: &str,
    ) -> Result<(), MailerError> {
        tokio::time::sleep(Self::LATENCY).await;
        let mut conn = self.pool.get().await?;
        insert_into(mails::table)
            .values((
                mails::idempotency_key.eq(idempotency_key),
                mails::order_id.eq(order_id),
                mails::address.eq(address),
                mails::template.eq(template),
            ))
            .on_conflict(mails::idempotency_key)
            .do_update()
            .set(mails::submissions.eq(mails::submissions + excluded(mails::submissions)))
            .execute(&mut conn)
            .await?;
        Ok(())
    }
}
