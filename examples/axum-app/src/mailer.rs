//! The way to the mail provider.

use std::time::Duration;

use diesel::upsert::excluded;
use diesel::{ExpressionMethods as _, insert_into};
use diesel_async::RunQueryDsl as _;
use diesel_async::pooled_connection::deadpool::PoolError;

use crate::pool::Pool;
use crate::schema::mails;

/// Hands mails to a provider: here, to a table through connections of its own, where a test can look. As with any
/// provider, what was handed in stays handed in, whatever becomes of the job that did it.
#[derive(Clone)]
#[expect(missing_debug_implementations, reason = "a pool has none worth reading")]
pub struct Mailer {
    pool: Pool,
}

/// The provider did not take the mail.
#[derive(Debug, thiserror::Error)]
pub enum MailerError {
    /// It was not reached.
    #[error("the mail provider cannot be reached: {0}")]
    Unreachable(#[from] PoolError),
    /// It failed.
    #[error("the mail provider did not take the mail: {0}")]
    Refused(#[from] diesel::result::Error),
}

impl Mailer {
    /// What a provider takes to answer.
    const LATENCY: Duration = Duration::from_millis(5);

    /// Over these connections.
    pub fn new(pool: Pool) -> Self {
        Self { pool }
    }

    /// Hands in one mail. The provider sends one per idempotency key, however often it is handed in.
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
