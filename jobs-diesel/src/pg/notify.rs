//! `listen`: the hint that work is there, on a connection of its own. A hint that is lost costs one poll interval.

use std::time::Duration;

use diesel_async::{AsyncPgConnection, RunQueryDsl};
use futures_util::StreamExt;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::connect::Connector;

const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// Wakes at each notification until `stop`.
pub(crate) async fn listen(connector: &Connector, wake: &Notify, stop: &CancellationToken) {
    let mut pause = FIRST_PAUSE;
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            lasted = listen_once(connector, wake) => match lasted {
                Ok(()) => pause = FIRST_PAUSE,
                Err(error) => tracing::debug!(%error, "cannot listen for new jobs; polling goes on"),
            }
        }
        // What was sent while nobody listened is found by one look.
        wake.notify_one();
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(pause.mul_f64(rand::random_range(0.5..1.0))) => pause = (pause * 2).min(LONGEST_PAUSE),
        }
    }
}

/// Returns when the connection ends; `Ok` if it ever worked.
async fn listen_once(connector: &Connector, wake: &Notify) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let mut conn: AsyncPgConnection = connector.connect_to_listen().await?;
    diesel::sql_query(format!("listen {}", connector.channel())).execute(&mut conn).await?;
    wake.notify_one();
    let mut notifications = std::pin::pin!(conn.notifications_stream());
    while let Some(Ok(_)) = notifications.next().await {
        wake.notify_one();
    }
    Ok(())
}
