//! Handlers that do not end within their time limit. Usually such a handler uses its own connection and waits for a
//! lock of the test's transaction. The test waits for the handler at the same time.

use std::time::Duration;

use diesel_jobs_core::testing::calls;
use diesel_jobs_core::{Handled, JobContext, Registration};

use super::blocked::Blocked;
use super::store::TestConnection;

/// A handler may run this long, unless its kind has a shorter timeout or the test sets another limit.
const LIMIT: Duration = Duration::from_secs(30);

/// If the call has not ended this much later, the handler blocks its thread.
const BLOCKS: Duration = Duration::from_secs(5);

/// How long a handler of this kind may run.
pub(super) fn limit(set: Option<Duration>, registration: &Registration) -> Duration {
    set.unwrap_or_else(|| registration.options.timeout.map_or(LIMIT, |timeout| timeout.min(LIMIT)))
}

/// Calls a handler for at most this time. An error is the message for a handler that has not ended.
pub(super) async fn call<C: TestConnection>(
    conn: &mut C,
    registration: &Registration,
    ctx: JobContext,
    limit: Duration,
) -> Result<Handled, String> {
    // A handler that blocks the thread of the test's runtime also blocks what follows here.
    let blocks = ctx.clone();
    let _watched = calls::print_after(limit + BLOCKS, move || message(&blocks, limit, &Blocked::Unknown));
    match conn.call(registration.handler, ctx.clone(), limit).await {
        Ok(handled) => Ok(handled),
        Err(calls::Expired) => Err(message(&ctx, limit, &conn.blocked().await)),
    }
}

/// Calls a handler that borrows a sync connection. It cannot be given up, so the message is printed.
#[cfg(any(feature = "postgres-sync", feature = "sqlite"))]
pub(super) fn reported<T>(ctx: &JobContext, limit: Duration, handle: impl FnOnce() -> T) -> T {
    let job = ctx.clone();
    calls::reported(limit, move || message(&job, limit, &Blocked::Unknown), handle)
}

fn message(ctx: &JobContext, limit: Duration, blocked: &Blocked) -> String {
    let why = match blocked {
        Blocked::Unknown => {
            "Perhaps it uses another connection, and waits there for a lock that the test's transaction holds. \
             Then the two wait for each other."
                .to_owned()
        }
        Blocked::None => "No session waits for a lock that the test's transaction holds.".to_owned(),
        Blocked::Session(session) => format!(
            "{session} waits for a lock that the test's transaction holds. If it belongs to the handler, the two wait for each other."
        ),
    };
    format!(
        "job {} of kind `{}` has not ended after {limit:?}. {why} Let the handler take the test's connection as a parameter \
         (`conn: &mut ..`), or run it with a worker in a `TestDatabase` (`Worker::run_until_empty`). `.time_limit(..)` sets \
         another limit.",
        ctx.id(),
        ctx.kind(),
    )
}
