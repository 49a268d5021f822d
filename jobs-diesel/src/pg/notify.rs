//! `listen`: receives the notifications of enqueues, on its own connection. If a notification is lost, the worker finds
//! the job at its next poll. It runs on a thread of its own, so it takes no connection from a pool: the pools belong to
//! the main runtime.

use std::collections::HashSet;
use std::time::Duration;

use diesel_async::{AsyncPgConnection, SimpleAsyncConnection as _};
use diesel_jobs_core::storage::{fits, is_pattern};
use futures_util::StreamExt;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::listeners::Deaf;
use super::queries::session;
use super::{PgStorage, STATEMENT_LIMIT, language, no_answer};

const FIRST_PAUSE: Duration = Duration::from_millis(250);
/// No longer than a failed claim waits: where the worker polls seldom, notifications are what it waits for.
const LONGEST_PAUSE: Duration = Duration::from_secs(3);

type Problem = Box<dyn std::error::Error + Send + Sync>;

/// Why listening has ended.
enum End {
    /// The connection was listening and has been closed.
    Connection,
    /// The connection was listening and has reached its [age](super::rotation).
    Age,
    /// `LISTEN` does not work behind this pooler.
    Pooled,
}

/// What is notified.
#[derive(Clone, Copy)]
pub(crate) struct Wakes<'a> {
    /// At each notification for one of the queues.
    pub(crate) jobs: &'a Notify,
    /// At each notification without a queue: a job may have become held, or an operator may have changed a setting.
    pub(crate) admission: &'a Notify,
}

/// The queues whose notifications count.
struct Served<'a> {
    names: HashSet<&'a str>,
    patterns: Vec<&'a str>,
}

impl<'a> Served<'a> {
    fn new(queues: &'a [String]) -> Self {
        let (patterns, names) = queues.iter().map(String::as_str).partition::<Vec<_>, _>(|name| is_pattern(name));
        Self { names: names.into_iter().collect(), patterns }
    }

    /// The end of a freeze notifies the names of workers, patterns included. These fit, too.
    fn contain(&self, queue: &str) -> bool {
        self.names.contains(queue) || self.patterns.iter().any(|pattern| fits(pattern, queue))
    }
}

/// Notifies `wakes` at each notification, until `stop`.
pub(crate) async fn listen(storage: &PgStorage, queues: &[String], wakes: Wakes<'_>, stop: &CancellationToken) {
    let served = Served::new(queues);
    let mut pause = FIRST_PAUSE;
    loop {
        let deaf = storage.listeners.deaf();
        tokio::select! {
            () = stop.cancelled() => return,
            lasted = listen_once(storage, &served, wakes, deaf) => match lasted {
                Ok(End::Connection) => {
                    storage.outage.begin();
                    pause = FIRST_PAUSE;
                }
                Ok(End::Age) => pause = FIRST_PAUSE,
                Ok(End::Pooled) => {
                    tracing::info!(
                        target: "diesel_jobs",
                        "the connection goes through a pooler in transaction mode, on which LISTEN does not work: \
                         when this worker is idle, it finds new jobs at its next poll"
                    );
                    let _deaf = storage.listeners.deaf();
                    return stop.cancelled().await;
                }
                Err(error) => tracing::debug!(target: "diesel_jobs", { %error }, "cannot listen for new jobs; the worker continues to poll"),
            }
        }
        let _deaf = storage.listeners.deaf();
        // Hints that were sent while no connection listened are lost. One poll finds their jobs.
        wakes.jobs.notify_one();
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(pause.mul_f64(rand::random_range(0.5..1.0))) => pause = (pause * 2).min(LONGEST_PAUSE),
        }
    }
}

/// `deaf` is dropped when the connection listens.
async fn listen_once(
    storage: &PgStorage,
    served: &Served<'_>,
    wakes: Wakes<'_>,
    deaf: Deaf<'_>,
) -> Result<End, Problem> {
    let rotation = storage.own_connector.rotation();
    let generation = rotation.generation();
    let mut conn: AsyncPgConnection = storage.own_connector.connect_to_listen().await?;
    let opened = rotation.opened((), generation);
    let limit = storage.stopwatch().limit(STATEMENT_LIMIT);
    let pooled = tokio::time::timeout(limit, is_pooled(storage, &mut conn)).await;
    if pooled.map_err(|_| no_answer("asking whether there is a pooler"))?? {
        return Ok(End::Pooled);
    }
    conn.batch_execute(&language::of_own_session()).await?;
    // It is a message of its own, so that pg_stat_activity shows what the session does.
    conn.batch_execute(&format!("listen {}", storage.connector.channel())).await?;
    drop(deaf);
    // What was notified before is lost: jobs, and changed settings.
    wakes.jobs.notify_one();
    wakes.admission.notify_one();
    let mut notifications = std::pin::pin!(conn.notifications_stream());
    let mut over = std::pin::pin!(rotation.until_over(&opened));
    loop {
        let notification = tokio::select! {
            biased;
            notification = notifications.next() => notification,
            () = &mut over => return Ok(End::Age),
        };
        let Some(Ok(notification)) = notification else { return Ok(End::Connection) };
        if notification.payload.is_empty() {
            wakes.admission.notify_one();
        } else if served.contain(&notification.payload) {
            wakes.jobs.notify_one();
        }
    }
}

/// Whether two transactions of this connection may reach different sessions. Then a `listen` would not work: other
/// clients would receive its notifications, and PgBouncer closes sessions that send messages without a request.
async fn is_pooled(storage: &PgStorage, conn: &mut AsyncPgConnection) -> Result<bool, Problem> {
    let mut other = storage.own_connector.connect_to_listen().await?;
    Ok(session::are_shared(conn, &mut other).await?)
}
