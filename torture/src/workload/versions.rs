//! The differences between two versions of a program: a kind that only the newer one has, and one whose arguments have
//! changed.

use std::time::Duration;

use anyhow::Result;
use diesel_jobs::handler::{Handled, Registered as _};
use diesel_jobs::worker::Registry;
use diesel_jobs::{JobContext, Outcome, State, job};
use diesel_jobs_core::__private::StateParameter as _;
use diesel_jobs_core::Handler;
use diesel_jobs_core::Registration;
use serde::{Deserialize, Serialize};

use super::work::Work;
use crate::history::{Recorder, What};

/// A kind that the older version does not have.
#[job]
pub async fn novel(work: Work, ctx: &JobContext, State(recorder): State<Recorder>) -> Result<()> {
    recorder.say(ctx, work.number, What::Start).await?;
    tokio::time::sleep(work.time(ctx.attempt())).await;
    recorder.say(ctx, work.number, What::Ok).await
}

/// An amount of money. The older version stores a number of cents, the newer one also the currency. The newer version
/// decodes both.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Amount {
    /// As the older version writes it.
    Cents(i64),
    /// As the newer version writes it.
    Of {
        /// The number of cents.
        cents: i64,
        /// The currency.
        currency: String,
    },
}

/// A kind whose arguments have changed. The backoff is long enough that the attempts are not used up during a
/// deployment.
#[job(backoff = "exponential(200ms, 10s)")]
pub async fn billed(work: Work, amount: Amount, ctx: &JobContext, State(recorder): State<Recorder>) -> Result<()> {
    drop(amount);
    bill(&work, ctx, &recorder).await
}

async fn bill(work: &Work, ctx: &JobContext, recorder: &Recorder) -> Result<()> {
    recorder.say(ctx, work.number, What::Start).await?;
    tokio::time::sleep(Duration::from_millis(5)).await;
    recorder.say(ctx, work.number, What::Ok).await
}

/// The arguments of the older version.
#[derive(Deserialize)]
struct BilledBefore {
    work: Work,
    amount: i64,
}

async fn billed_before(ctx: JobContext) -> Handled {
    let BilledBefore { work, amount } = ctx.decode()?;
    if amount < 0 {
        return Err(diesel_jobs::JobError::msg("nothing to bill"));
    }
    let State(recorder) = State::of_worker(&ctx)?;
    bill(&work, &ctx, &recorder).await.map_err(diesel_jobs::JobError::new)?;
    Ok(Outcome::Complete)
}

/// Returns the registry of the older version.
pub fn before() -> Registry {
    let billed = Registration { handler: Handler::Async(|ctx| Box::pin(billed_before(ctx))), ..Billed::REGISTRATION };
    let kept = Registry::linked();
    let kept = kept.iter().filter(|registration| ![Novel::REGISTRATION.kind, billed.kind].contains(&registration.kind));
    let mut registry = Registry::new();
    kept.copied().chain([billed]).for_each(|registration| registry.insert(registration));
    registry
}
