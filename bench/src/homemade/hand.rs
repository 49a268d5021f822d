//! A connection that takes and ends one job after the other. It connects again when it is cut.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Result;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Statement};

use super::Recipe;

/// The pause after a statement that found no job.
const PAUSE: Duration = Duration::from_millis(1);

/// What all connections together have done.
#[derive(Debug)]
pub(crate) struct Tally {
    /// How often each job was run. The index is the job's id.
    runs: Vec<AtomicU32>,
    pub(crate) ended: AtomicU64,
    /// Statements that failed because of a conflict with another transaction.
    pub(crate) conflicts: AtomicU64,
    pub(crate) over: AtomicBool,
}

impl Tally {
    pub(crate) fn new(jobs: usize) -> Self {
        Self {
            runs: (0..=jobs).map(|_| AtomicU32::new(0)).collect(),
            ended: AtomicU64::new(0),
            conflicts: AtomicU64::new(0),
            over: AtomicBool::new(false),
        }
    }

    /// Returns how many jobs were run more than once.
    pub(crate) fn repeated(&self) -> usize {
        self.runs.iter().filter(|runs| runs.load(Ordering::Relaxed) > 1).count()
    }

    fn run(&self, id: i64) {
        if let Some(runs) = usize::try_from(id).ok().and_then(|id| self.runs.get(id)) {
            runs.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Takes and ends jobs until the tally is over.
pub(crate) async fn work(url: &str, recipe: &Recipe, tally: &Tally) -> Result<()> {
    while !tally.over.load(Ordering::Relaxed) {
        let hand = Hand::connect(url, recipe).await?;
        while !tally.over.load(Ordering::Relaxed) {
            match hand.one(tally).await {
                Ok(()) => {}
                Err(_) if hand.client.is_closed() => break,
                Err(error) if is_conflict(&error) => {
                    tally.conflicts.fetch_add(1, Ordering::Relaxed);
                }
                // The server sends this error before it closes the connection.
                Err(error) if error.code() == Some(&SqlState::ADMIN_SHUTDOWN) => break,
                Err(error) => return Err(error.into()),
            }
        }
    }
    Ok(())
}

fn is_conflict(error: &tokio_postgres::Error) -> bool {
    error.code() == Some(&SqlState::T_R_SERIALIZATION_FAILURE) || error.code() == Some(&SqlState::T_R_DEADLOCK_DETECTED)
}

struct Hand<'r> {
    client: Client,
    take: Statement,
    end: Statement,
    recipe: &'r Recipe,
}

impl<'r> Hand<'r> {
    async fn connect(url: &str, recipe: &'r Recipe) -> Result<Self> {
        let client = crate::server::connect(url).await?;
        let take = client.prepare(recipe.take).await?;
        let end = client.prepare(recipe.end).await?;
        Ok(Self { client, take, end, recipe })
    }

    /// Takes a job, runs it (it does nothing), and ends it.
    async fn one(&self, tally: &Tally) -> Result<(), tokio_postgres::Error> {
        let done = self.take_and_end(tally).await;
        if done.is_err() && self.recipe.begin.is_some() {
            let _ = self.client.batch_execute("rollback").await;
        }
        done
    }

    async fn take_and_end(&self, tally: &Tally) -> Result<(), tokio_postgres::Error> {
        if let Some(begin) = self.recipe.begin {
            self.client.batch_execute(begin).await?;
        }
        let taken: Option<i64> = self.client.query_opt(&self.take, &[]).await?.map(|row| row.get(0));
        if let Some(id) = taken {
            tally.run(id);
            // The job has run, so it must be ended: after a conflict the statement is tried again.
            while let Err(error) = self.client.execute(&self.end, &[&id]).await {
                if self.recipe.begin.is_some() || !is_conflict(&error) {
                    return Err(error);
                }
                tally.conflicts.fetch_add(1, Ordering::Relaxed);
            }
        }
        if let Some(after) = self.recipe.after {
            self.client.batch_execute(after).await?;
        }
        match taken {
            Some(_) => {
                tally.ended.fetch_add(1, Ordering::Relaxed);
            }
            None => tokio::time::sleep(PAUSE).await,
        }
        Ok(())
    }
}
