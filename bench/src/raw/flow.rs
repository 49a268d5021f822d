//! Runs claims and finishes in parallel, each on connections of their own. Neither waits for the other.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use tokio::sync::{Mutex, mpsc, watch};
use tokio::task::JoinSet;

use super::claim::Claimer;
use super::finish::Finisher;
use crate::fleet::Timeline;

/// How many batches may wait between a claimer and its finishers.
const WAITING: usize = 4;
/// The pause of a claimer that found no job.
const PAUSE: Duration = Duration::from_millis(1);
/// A flow that finishes no job for this long is stuck.
const STUCK: Duration = Duration::from_secs(60);

/// How a job ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// In batches, and stored as history.
    Kept,
    /// In batches, without history.
    Forgotten,
    /// Each in a transaction of its own, on this many connections.
    Transactions(usize),
}

/// A running flow. It ends when dropped.
pub(crate) struct Flow {
    claimers: Vec<Claimer>,
    finishers: Vec<Vec<Finisher>>,
    one_by_one: bool,
    tasks: JoinSet<Result<()>>,
    finished: watch::Sender<u64>,
    pub(crate) timeline: Timeline,
}

impl Flow {
    /// Connects this many claimers, each with its finishers. They do nothing before [`start`](Self::start).
    pub(crate) async fn connect(url: &str, number: usize, end: End) -> Result<Self> {
        let (keep, connections, one_by_one) = match end {
            End::Kept => (true, 1, false),
            End::Forgotten => (false, 1, false),
            End::Transactions(connections) => (true, connections, true),
        };
        let mut claimers = Vec::new();
        let mut finishers = Vec::new();
        for _ in 0..number {
            claimers.push(Claimer::connect(url, Claimer::MANY).await?);
            let mut group = Vec::new();
            for _ in 0..connections {
                group.push(Finisher::connect(url, keep).await?);
            }
            finishers.push(group);
        }
        Ok(Self {
            claimers,
            finishers,
            one_by_one,
            tasks: JoinSet::new(),
            finished: watch::Sender::new(0),
            timeline: Timeline::new(Instant::now()),
        })
    }

    /// Starts all tasks. The time is measured from here.
    pub(crate) fn start(&mut self) {
        self.timeline = Timeline::new(Instant::now());
        for (claimer, finishers) in self.claimers.drain(..).zip(self.finishers.drain(..)) {
            let (sender, batches) = mpsc::channel(WAITING);
            self.tasks.spawn(claim(claimer, sender, self.one_by_one));
            let batches = Arc::new(Mutex::new(batches));
            for finisher in finishers {
                self.tasks.spawn(finish(finisher, batches.clone(), self.finished.clone(), self.one_by_one));
            }
        }
    }

    /// Returns how many jobs are finished.
    pub(crate) fn finished(&self) -> u64 {
        *self.finished.borrow()
    }

    /// Returns a receiver of that number for another task.
    pub(crate) fn watch(&self) -> watch::Receiver<u64> {
        self.finished.subscribe()
    }

    /// Waits until this many jobs are finished. Returns how long that took since `start`.
    pub(crate) async fn until(&mut self, jobs: u64) -> Result<Duration> {
        let mut finished = self.finished.subscribe();
        loop {
            let total = *finished.borrow_and_update();
            self.timeline.push(Instant::now(), total);
            if total >= jobs {
                return Ok(self.timeline.last());
            }
            self.step(&mut finished, STUCK).await?.then_some(()).context("the raw flow is stuck")?;
        }
    }

    /// Records the progress for this long.
    pub(crate) async fn record_for(&mut self, time: Duration) -> Result<()> {
        let mut finished = self.finished.subscribe();
        let end = Instant::now() + time;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() || !self.step(&mut finished, left).await? {
                return Ok(());
            }
            self.timeline.push(Instant::now(), *finished.borrow_and_update());
        }
    }

    /// Waits until more jobs are finished. Returns false if none was within this time.
    async fn step(&mut self, finished: &mut watch::Receiver<u64>, limit: Duration) -> Result<bool> {
        tokio::select! {
            changed = tokio::time::timeout(limit, finished.changed()) => match changed {
                Ok(changed) => changed.map(|()| true).context("nobody finishes"),
                Err(_) => Ok(false),
            },
            Some(ended) = self.tasks.join_next() => match ended.context("a raw task failed")? {
                Ok(()) => bail!("a raw task ended"),
                Err(error) => Err(error),
            },
        }
    }
}

async fn claim(mut claimer: Claimer, batches: mpsc::Sender<Vec<i64>>, one_by_one: bool) -> Result<()> {
    loop {
        let ids = claimer.claim().await?;
        if ids.is_empty() {
            tokio::time::sleep(PAUSE).await;
        } else if one_by_one {
            for id in ids {
                batches.send(vec![id]).await.context("nobody finishes")?;
            }
        } else {
            batches.send(ids).await.context("nobody finishes")?;
        }
    }
}

async fn finish(
    finisher: Finisher,
    batches: Arc<Mutex<mpsc::Receiver<Vec<i64>>>>,
    total: watch::Sender<u64>,
    one_by_one: bool,
) -> Result<()> {
    loop {
        let ids = batches.lock().await.recv().await.context("nobody claims")?;
        let finished = match ids.as_slice() {
            [id] if one_by_one => finisher.transact(*id).await?,
            ids => finisher.finish(ids).await?,
        };
        total.send_modify(|total| *total += finished);
    }
}
