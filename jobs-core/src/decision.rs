//! Decides on the transition of a job at the end of an attempt, for workers and for tests.

use std::time::Duration;

use crate::context::JobContext;
use crate::handler::Registration;
use crate::outcome::{Attempt, Handled, Kept, Outcome, Transition, decide};
use crate::panics::caught_call;
use crate::secrets;

/// Returns the transition of the running job. `jitter` is at least 0 and less than 1. A custom backoff is user code: if
/// it panics, the attempt must be finished nevertheless. The values of secret arguments are removed from errors and
/// reasons before these texts are truncated.
pub(crate) fn decided(
    ctx: &JobContext,
    registration: &Registration,
    kept: Kept,
    handled: Handled,
    jitter: f64,
) -> Transition {
    let options = &registration.options;
    let attempt = Attempt { attempt: ctx.attempt(), max_attempts: ctx.max_attempts(), options, kept };
    let handled = without_secrets(ctx, registration, handled);
    caught_call(|| decide(attempt, handled, jitter))
        .unwrap_or_else(|error| decide(attempt, Err(error.retry_in(Duration::from_secs(60))), 0.0))
}

/// Removes the values of secret arguments from the error or the reason.
pub(crate) fn without_secrets(ctx: &JobContext, registration: &Registration, handled: Handled) -> Handled {
    let secrets = registration.options.secrets;
    if secrets.is_empty() {
        return handled;
    }
    let remove = |text: &mut String| secrets::remove_from(text, &ctx.claimed().args, secrets);
    match handled {
        Ok(Outcome::Cancel(mut reason)) => {
            remove(&mut reason);
            Ok(Outcome::Cancel(reason))
        }
        Ok(outcome) => Ok(outcome),
        Err(error) => Err(error.reworded(remove)),
    }
}
