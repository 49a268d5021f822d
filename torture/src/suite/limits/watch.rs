//! Looks at slots, jobs and held jobs all the time, each time in one snapshot.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use anyhow::Result;
use tokio::task::JoinHandle;
use tokio_postgres::Client;
use tokio_util::sync::CancellationToken;
use torture::cluster::connect;

use crate::suite::fixture::slack;

/// The pause between two looks.
const PAUSE: Duration = Duration::from_millis(10);
/// How long a free slot may stand beside a job that waits for it. A pass of admission each second backs up hints within a process.
const FREE: Duration = Duration::from_millis(1_500);
/// The most complaints that are kept.
const ENOUGH: usize = 10;

/// Each row is something that must never be seen, or a key with a free slot and a job that waits for it.
const LOOK: &str = "with live as (
    select id, flow ->> 'limit' as name, flow ->> 'key' as key, (flow ->> 'most')::integer as most from jobs.ready where flow is not null
    union all
    select id, flow ->> 'limit', flow ->> 'key', (flow ->> 'most')::integer from jobs.running where flow is not null
), waiting as (
    select limit_name as name, limit_key as key, max(most) as most, count(*) as jobs from jobs.held
    where run_at < clock_timestamp() group by limit_name, limit_key
), slot as (
    select limit_name as name, limit_key as key, count(*) as slots, array_agg(job_id order by job_id)::text as jobs
    from jobs.slot group by limit_name, limit_key
)
select 'more jobs than the limit allows', name || key, count(*)::text from live group by name, key having count(*) > max(most)
union all
select 'a job without a slot', name || key, id::text from live l where not exists (select from jobs.slot s where s.job_id = l.id)
union all
select 'a slot without a job', limit_name || limit_key, job_id::text from jobs.slot s where not exists (select from live l where l.id = s.job_id)
union all
select 'free', w.name || w.key, w.jobs::text || coalesce(s.jobs, '') from waiting w left join slot s on s.name = w.name and s.key = w.key
where coalesce(s.slots, 0) < w.most";

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
    pub(super) fn start(url: String) -> Self {
        let stop = CancellationToken::new();
        let task = tokio::spawn(watch(url, stop.clone()));
        Self { task, stop }
    }

    pub(super) async fn stop(self) -> Result<Found> {
        self.stop.cancel();
        self.task.await?
    }
}

/// It connects again after a crash of the server.
async fn watch(url: String, stop: CancellationToken) -> Result<Found> {
    let mut found = Found::default();
    while !stop.is_cancelled() {
        let conn = connect(&url).await?;
        let mut free = BTreeMap::new();
        while !stop.is_cancelled() && look(&conn, &mut found, &mut free).await.is_ok() {
            tokio::time::sleep(PAUSE).await;
        }
    }
    Ok(found)
}

/// `free`: since when a key has a free slot and the same jobs.
async fn look(conn: &Client, found: &mut Found, free: &mut BTreeMap<String, (String, Instant)>) -> Result<()> {
    let rows = conn.query(LOOK, &[]).await?;
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
        } else if entry.1.elapsed() > FREE + slack() {
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
