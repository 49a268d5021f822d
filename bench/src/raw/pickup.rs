//! Measures the time from an insert that notifies to the listener's claim.

use std::time::Instant;

use anyhow::{Context as _, Result};
use futures_util::StreamExt as _;
use tokio::sync::mpsc;
use tokio_postgres::{AsyncMessage, Client, NoTls};

use super::claim::Claimer;
use super::enqueue::Enqueuer;
use super::finish::Finisher;

/// A listener that claims one job per notification, and a producer that notifies.
pub(crate) struct Pickup {
    enqueuer: Enqueuer,
    /// Kept open, because it receives the notifications.
    _listener: Client,
    hints: mpsc::UnboundedReceiver<()>,
    claimer: Claimer,
    finisher: Finisher,
}

impl Pickup {
    pub(crate) async fn connect(url: &str) -> Result<Self> {
        let (listener, mut connection) = tokio_postgres::connect(url, NoTls).await?;
        let (sender, hints) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            let mut messages = futures_util::stream::poll_fn(|cx| connection.poll_message(cx));
            while let Some(Ok(message)) = messages.next().await {
                if matches!(message, AsyncMessage::Notification(_)) {
                    let _ = sender.send(());
                }
            }
        });
        listener.batch_execute("listen jobs").await?;
        Ok(Self {
            enqueuer: Enqueuer::notifying(url).await?,
            _listener: listener,
            hints,
            claimer: Claimer::connect(url, Claimer::ONE).await?,
            finisher: Finisher::connect(url, true).await?,
        })
    }

    /// Returns the milliseconds from the answer to the insert to the answer to the claim.
    pub(crate) async fn once(&mut self) -> Result<f64> {
        let (enqueued, claimed) = tokio::join!(
            async {
                self.enqueuer.enqueue().await?;
                anyhow::Ok(Instant::now())
            },
            async {
                self.hints.recv().await.context("the listener is gone")?;
                let ids = self.claimer.claim().await?;
                anyhow::Ok((Instant::now(), ids))
            }
        );
        let (enqueued, (claimed, ids)) = (enqueued?, claimed?);
        self.finisher.finish(&ids).await?;
        Ok(claimed.saturating_duration_since(enqueued).as_secs_f64() * 1000.0)
    }
}
