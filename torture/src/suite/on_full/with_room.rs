//! A client that enqueues as many jobs of a key as its limit allows, and the next ones when these have ended. So no job
//! finds its limit full.

use std::time::Duration;

use anyhow::Result;
use diesel_jobs::rules::OnFull;
use tokio_postgres::Client;
use tokio_util::sync::CancellationToken;
use torture::cluster::connect;
use torture::history::Enqueued;
use torture::workload::{Application, EnqueueCall, Shape, Work};

/// The name of the limit.
pub(super) const NAME: &str = "with room";
const PAUSE: Duration = Duration::from_millis(5);
/// How long an attempt takes.
const MILLIS: u64 = 5;

/// The jobs of the key that have not ended, in one snapshot: what has ended has given its permit back.
const OPEN: &str = "select count(*) from (
    select rules from jobs.held union all select rules from jobs.ready union all select rules from jobs.running
) job where rules #>> '{0,name}' = 'with room' and rules #>> '{0,key}' = $1";

/// `first`: the range of its job numbers begins behind it, and it is the key.
pub(super) async fn with_room(
    url: String,
    first: i64,
    most: u32,
    rule: OnFull,
    stop: CancellationToken,
) -> Result<Vec<Enqueued>> {
    let mut application = Application::new(url.clone());
    let mut conn = connect(&url).await?;
    let (key, mut next) = (format!("[{first}]"), first);
    while !stop.is_cancelled() {
        let works: Vec<Work> = (0..most)
            .map(|_| {
                next += 1;
                Work::new(next, Shape::Async).lasting(MILLIS).limited(NAME, first, most).on_full(rule)
            })
            .collect();
        application.perform(&EnqueueCall::Bulk(works)).await?;
        while !have_ended(&conn, &key).await.unwrap_or(false) {
            tokio::time::sleep(PAUSE).await;
            if conn.is_closed() {
                conn = connect(&url).await?;
            }
        }
    }
    Ok(application.ledger())
}

async fn have_ended(conn: &Client, key: &str) -> Result<bool> {
    Ok(conn.query_one(OPEN, &[&key]).await?.get::<_, i64>(0) == 0)
}
