//! Looks at the tables all the time, each time in one snapshot, for what must never be seen.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use anyhow::Result;
use tokio::task::JoinHandle;
use tokio_postgres::Client;
use tokio_util::sync::CancellationToken;
use torture::cluster::connect;

use super::fixture::slack;

/// The pause between two looks.
const PAUSE: Duration = Duration::from_millis(10);
/// The most complaints that are kept.
const ENOUGH: usize = 10;

/// What was seen.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) complaints: Vec<String>,
    pub(super) looks: usize,
}

/// A running watch.
pub(super) struct Watch {
    task: JoinHandle<Result<Found>>,
    stop: CancellationToken,
}

impl Watch {
    /// `look` is a query of three texts: what is wrong, of which key, and details. Each row is something that must never be seen. Only
    /// `free` may be seen with the same details for the time `free`: it says that jobs wait for a free slot.
    pub(super) fn start(url: String, look: &'static str, free: Duration) -> Self {
        let stop = CancellationToken::new();
        let task = tokio::spawn(watch(url, look, free, stop.clone()));
        Self { task, stop }
    }

    pub(super) async fn stop(self) -> Result<Found> {
        self.stop.cancel();
        self.task.await?
    }
}

/// It connects again after a crash of the server.
async fn watch(url: String, query: &'static str, most: Duration, stop: CancellationToken) -> Result<Found> {
    let mut found = Found::default();
    while !stop.is_cancelled() {
        let conn = connect(&url).await?;
        let mut free = BTreeMap::new();
        while !stop.is_cancelled() && look(&conn, query, most, &mut found, &mut free).await.is_ok() {
            tokio::time::sleep(PAUSE).await;
        }
    }
    Ok(found)
}

/// `free`: since when a key has a free slot and the same jobs.
async fn look(
    conn: &Client,
    query: &str,
    most: Duration,
    found: &mut Found,
    free: &mut BTreeMap<String, (String, Instant)>,
) -> Result<()> {
    let rows = conn.query(query, &[]).await?;
    found.looks += 1;
    let mut seen = BTreeSet::new();
    for row in rows {
        let (what, key, which): (String, String, String) = (row.get(0), row.get(1), row.get(2));
        if what != "free" {
            complain(found, format!("{what}: {key} {which}"));
            continue;
        }
        seen.insert(key.clone());
        let entry = free.entry(key.clone()).or_insert_with(|| (which.clone(), Instant::now()));
        if entry.0 != which {
            *entry = (which, Instant::now());
        } else if entry.1.elapsed() > most.saturating_add(slack()) {
            complain(
                found,
                format!("a slot is free for {:?} beside jobs that wait for it: {key} {which}", entry.1.elapsed()),
            );
            entry.1 = Instant::now();
        }
    }
    free.retain(|key, _| seen.contains(key));
    Ok(())
}

fn complain(found: &mut Found, complaint: String) {
    if found.complaints.len() < ENOUGH {
        found.complaints.push(complaint);
    }
}
