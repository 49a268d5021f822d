//! A process of a hand-written queue. It speaks with its parent as a worker process does, with these lines:
//!
//! | line | when |
//! |---|---|
//! | `connected` | the database answers; the process waits for `start` on standard input |
//! | `ran ID` | it has taken this job, and its end statement was not sent yet |
//! | `completed N` | it has ended N jobs so far; at most every 5 ms |
//! | `conflicts N` | N of its statements have met a conflict so far; at most every 5 ms |
//!
//! On `stop` it ends its job, and then itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context as _, Result};
use clap::Parser;

use super::session::Session;
use super::totals::Totals;
use super::{RECIPES, Recipe};
use crate::say::say;
use crate::worker_process::listen;

/// The first argument that makes this program such a process.
pub(crate) const COMMAND: &str = "homemade-process";

#[derive(Debug, Parser)]
#[command(name = COMMAND)]
pub(crate) struct HomemadeArgs {
    /// The database
    #[arg(long, env = "DATABASE_URL", hide_env_values = true)]
    database_url: String,
    /// The name of the recipe
    #[arg(long)]
    recipe: String,
}

/// Returns the arguments of a process of this recipe.
pub(crate) fn arguments(recipe: &Recipe) -> Vec<String> {
    vec![COMMAND.to_owned(), format!("--recipe={}", recipe.name)]
}

pub(crate) fn main(args: &HomemadeArgs) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("starting the runtime")?;
    runtime.block_on(run(args))
}

async fn run(args: &HomemadeArgs) -> Result<()> {
    let recipe = RECIPES.iter().find(|recipe| recipe.name == args.recipe).context("there is no such recipe")?;
    let session = Session::connect(&args.database_url, recipe).await?;
    let over = Arc::new(AtomicBool::new(false));
    let stop = over.clone();
    let start = listen(move || stop.store(true, Ordering::Relaxed));
    say("connected");
    start.await.context("the parent is gone")?;
    let mut totals = Totals::new();
    while !over.load(Ordering::Relaxed) {
        session.one(&mut totals).await?;
        totals.tell_if_due();
    }
    totals.tell();
    Ok(())
}
