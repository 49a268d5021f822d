//! The pauses of queues and kinds, as `stats`, `list` and `show` mention them.

use diesel_jobs_core::shell::argument;
use diesel_jobs_core::storage::{KindSettings, Operator, Pause, QueueSettings, StorageResult};
use serde::Serialize;

use super::output;

/// Something that is paused.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Paused {
    /// `queue` or `kind`.
    what: &'static str,
    pub(super) name: String,
    #[serde(flatten)]
    pub(super) pause: Pause,
}

impl Paused {
    /// In one line.
    pub(super) fn text(&self) -> String {
        let Self { what, name, pause } = self;
        output::printable(&format!(
            "{what} `{name}` is {pause}; to continue: `worker {what}s resume {}`",
            argument(name)
        ))
    }

    fn concerns(&self, queue: &str, kind: &str) -> bool {
        self.name == if self.what == "queue" { queue } else { kind }
    }
}

/// All pauses.
pub(super) async fn all(operator: &dyn Operator) -> StorageResult<Vec<Paused>> {
    let queues = operator.queues().await?;
    let queues = queues.into_iter().filter_map(|QueueSettings { name, paused, .. }| Some(("queue", name, paused?)));
    let kinds = operator.kinds().await?;
    let kinds = kinds.into_iter().filter_map(|KindSettings { name, paused }| Some(("kind", name, paused?)));
    Ok(queues.chain(kinds).map(|(what, name, pause)| Paused { what, name, pause }).collect())
}

/// The pauses that keep a job from being claimed.
pub(super) async fn of_job(operator: &dyn Operator, queue: &str, kind: &str) -> StorageResult<Vec<Paused>> {
    let mut pauses = all(operator).await?;
    pauses.retain(|paused| paused.concerns(queue, kind));
    Ok(pauses)
}

/// A line for each, and an empty line if there is any.
pub(super) fn text(pauses: &[Paused]) -> String {
    let lines: String = pauses.iter().map(|paused| paused.text() + "\n").collect();
    if lines.is_empty() { lines } else { lines + "\n" }
}
