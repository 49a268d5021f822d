//! Asks the server to cancel a statement, through a connection of its own.

use std::time::Duration;

use tokio_postgres::{CancelToken, NoTls};

use super::connect::Connector;
use super::not_connected::NotConnected;

/// The time limit of a request to cancel a statement. The server answers it only by closing the connection.
const CANCEL_LIMIT: Duration = Duration::from_secs(2);

impl Connector {
    /// Asks the server to cancel the current statement of a connection. The server does not say whether it did.
    pub(crate) async fn cancel(&self, token: CancelToken) {
        let cancelled = async {
            match self.last_encryption()? {
                Some(tls) => token.cancel_query(tls).await,
                None => token.cancel_query(NoTls).await,
            }
            .map_err(|error| NotConnected::of(&error))
        };
        match tokio::time::timeout(CANCEL_LIMIT, cancelled).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                tracing::debug!(target: "diesel_jobs", { %error }, "could not ask the server to cancel a statement")
            }
            Err(_) => {
                tracing::debug!(target: "diesel_jobs", "the server did not take the request to cancel a statement")
            }
        }
    }
}
