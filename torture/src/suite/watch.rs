//! Looks at the tables all the time, each time in one snapshot, for what must never be seen.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use anyhow::Result;
use tokio::sync::watch::Sender;
use tokio_postgres::Client;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use torture::cluster::connect;

use super::fixture::Fixture;

/// The shortest pause between two looks. A look that takes long is followed by a longer one, so that looks cost the
/// server a quarter of a processor at most.
const PAUSE: Duration = Duration::from_millis(10);
const PAUSES_PER_LOOK: u32 = 3;
/// The most complaints that are kept.
const ENOUGH: usize = 10;
/// What may be seen for a short time.
const LASTING: [(&str, &str); 2] =
    [("free", "a permit is free beside jobs that wait for it"), ("waits", "a job waits that must not wait")];

/// What was seen.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) complaints: Vec<String>,
    pub(super) looks: usize,
}

/// A running watch.
pub(super) struct Watch {
    task: AbortOnDropHandle<Result<Found>>,
    stop: CancellationToken,
}

impl Watch {
    /// `look` is a query of three texts: what is wrong, of which key, and details. Each row is something that must
    /// never be seen. There are two exceptions: `free` (a job waits for a free permit) and `waits` (a job waits). They
    /// may be seen with the same details for the time `free`.
    pub(super) fn start(fixture: &Fixture<'_>, look: impl Into<String>, free: Duration) -> Self {
        let stop = CancellationToken::new();
        let free = fixture.patience(free);
        let watch = watch(fixture.url(), look.into(), free, fixture.first_complaint(), stop.clone());
        Self { task: AbortOnDropHandle::new(tokio::spawn(watch)), stop }
    }

    pub(super) async fn stop(self) -> Result<Found> {
        self.stop.cancel();
        self.task.await?
    }
}

/// It connects again after a crash of the server.
async fn watch(
    url: String,
    query: String,
    most: Duration,
    first: Sender<Option<String>>,
    stop: CancellationToken,
) -> Result<Found> {
    let mut found = Found::default();
    while !stop.is_cancelled() {
        let conn = connect(&url).await?;
        let mut free = BTreeMap::new();
        let mut begun = Instant::now();
        while !stop.is_cancelled() && look(&conn, &query, most, &mut found, &mut free).await.is_ok() {
            if let Some(complaint) = found.complaints.first() {
                first.send_if_modified(|first| first.replace(complaint.clone()).is_none());
            }
            tokio::time::sleep(PAUSE.max(begun.elapsed() * PAUSES_PER_LOOK)).await;
            begun = Instant::now();
        }
    }
    Ok(found)
}

/// `free`: since when something is seen of a key, with the same details.
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
        let Some((_, wrong)) = LASTING.iter().find(|(name, _)| *name == what) else {
            complain(found, format!("{what}: {key} {which}"));
            continue;
        };
        let place = format!("{what} {key}");
        seen.insert(place.clone());
        let entry = free.entry(place).or_insert_with(|| (which.clone(), Instant::now()));
        if entry.0 != which {
            *entry = (which, Instant::now());
        } else if entry.1.elapsed() > most {
            complain(found, format!("{wrong}, for {:?}: {key} {which}", entry.1.elapsed()));
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
