//! A connection that takes and ends one job after the other.

use std::time::Duration;

use anyhow::Result;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Error, Statement};

use super::Recipe;
use super::totals::Totals;
use crate::kinds::say_ran;

/// The pause after a statement that found no job.
const PAUSE: Duration = Duration::from_millis(1);

pub(super) struct Session<'r> {
    client: Client,
    take: Statement,
    end: Statement,
    recipe: &'r Recipe,
}

impl<'r> Session<'r> {
    pub(super) async fn connect(url: &str, recipe: &'r Recipe) -> Result<Self> {
        let client = crate::server::connect(url).await?;
        let take = client.prepare(recipe.take).await?;
        let end = client.prepare(recipe.end).await?;
        Ok(Self { client, take, end, recipe })
    }

    /// Takes a job, runs it and ends it. To run a job is to tell the parent of it. A conflict is counted.
    pub(super) async fn one(&self, totals: &mut Totals) -> Result<()> {
        let Err(error) = self.take_and_end(totals).await else {
            return Ok(());
        };
        if !is_conflict(&error) {
            return Err(error.into());
        }
        totals.conflicts += 1;
        if self.recipe.begin.is_some() {
            self.client.batch_execute("rollback").await?;
        }
        Ok(())
    }

    async fn take_and_end(&self, totals: &mut Totals) -> Result<(), Error> {
        if let Some(begin) = self.recipe.begin {
            self.client.batch_execute(begin).await?;
        }
        let taken: Option<i64> = self.client.query_opt(&self.take, &[]).await?.map(|row| row.get(0));
        if let Some(id) = taken {
            say_ran(id);
            // The job has run, so it must be ended: after a conflict the statement is tried again.
            while let Err(error) = self.client.execute(&self.end, &[&id]).await {
                if self.recipe.begin.is_some() || !is_conflict(&error) {
                    return Err(error);
                }
                totals.conflicts += 1;
            }
        }
        if let Some(after) = self.recipe.after {
            self.client.batch_execute(after).await?;
        }
        match taken {
            Some(_) => totals.ended += 1,
            None => tokio::time::sleep(PAUSE).await,
        }
        Ok(())
    }
}

fn is_conflict(error: &Error) -> bool {
    error.code() == Some(&SqlState::T_R_SERIALIZATION_FAILURE) || error.code() == Some(&SqlState::T_R_DEADLOCK_DETECTED)
}
