//! What operators do to jobs. Each action is one statement, which also writes the audit.

use std::collections::{HashMap, HashSet};

use diesel::QueryResult;
use diesel_async::{AsyncConnection as _, AsyncPgConnection, RunQueryDsl};
use diesel_jobs_core::__private::acted;
use diesel_jobs_core::storage::{Action, Once, Operated, RequestKey, StorageResult};
use diesel_jobs_core::{JobId, Retention, flags};

use super::queries::audited::{self, Actor};
use super::queries::change::ChangeQuery;
use super::queries::delete_jobs::DeleteJobsQuery;
use super::queries::discard::DiscardQuery;
use super::queries::inspect;
use super::queries::operate::{CancelQuery, RescheduleQuery, RetryQuery};
use super::queries::rerun::RerunQuery;
use super::{PgStorage, native, run};
use crate::operation::record::acted_once;

/// How many times a command is tried. A job may move after a command did nothing, and before the query that asks why.
const TRIES: usize = 3;

/// Jobs per statement.
pub(super) const CHUNK: usize = 1000;

/// Each id once, so that no two statements are asked about the same job.
pub(super) fn distinct(ids: &[JobId]) -> Vec<JobId> {
    let mut seen = HashSet::with_capacity(ids.len());
    ids.iter().copied().filter(|id| seen.insert(*id)).collect()
}

/// Runs the statement of an action. Returns the jobs that it has changed. All rows are read, because the first one
/// comes before the statement is committed.
pub(super) async fn change(
    conn: &mut AsyncPgConnection,
    action: &Action,
    mut ids: Vec<i64>,
    actor: Actor<'_>,
) -> QueryResult<Vec<(i64, Operated)>> {
    // All that wait for several jobs lock them in this order.
    ids.sort_unstable();
    let kept = Retention::default();
    let changed: Vec<i64> = match action {
        Action::Retry => RetryQuery::new(ids, actor).load(conn).await?,
        Action::Reschedule(at) => RescheduleQuery::new(ids, *at, actor).load(conn).await?,
        Action::Cancel => CancelQuery::new(ids, actor).load(conn).await?,
        Action::Discard => DiscardQuery::new(ids, native::seconds(kept.discarded), actor).load(conn).await?,
        Action::Delete => DeleteJobsQuery::new(ids, actor).load(conn).await?,
        Action::Rerun => {
            let new: Vec<(i64, i64)> = RerunQuery::new(ids, actor).load(conn).await?;
            return Ok(new.into_iter().map(|(id, new)| (id, Operated::Enqueued(JobId(new)))).collect());
        }
        other => ChangeQuery::new(ids, other, actor).load(conn).await?,
    };
    Ok(changed.into_iter().map(|id| (id, Operated::Done)).collect())
}

/// [`change`] for a request with a key, unless it was done before.
async fn change_once(
    conn: &mut AsyncPgConnection,
    key: &RequestKey,
    action: &Action,
    ids: Vec<i64>,
    actor: &str,
) -> QueryResult<Once<Vec<(i64, Operated)>>> {
    let (key, action, name) = (*key, action.clone(), actor.to_owned());
    conn.transaction(async move |conn| {
        if let Some(before) = audited::before(conn, &key).await? {
            return Ok(Once::Before(before));
        }
        // The entry that the statement would write has no key.
        let changed = change(conn, &action, ids, Actor { name: &name, is_audited: false }).await?;
        if let Some(entry) = acted_once(&key, &action, &changed, &name) {
            audited::record(conn, &entry).await?;
        }
        Ok(Once::Now(changed))
    })
    .await
}

impl PgStorage {
    /// With a key, at most [`CHUNK`] jobs.
    pub(super) async fn act_on(
        &self,
        action: &Action,
        ids: &[JobId],
        actor: &str,
        key: Option<&RequestKey>,
    ) -> StorageResult<Once<Vec<Operated>>> {
        let actor = Actor { name: actor, is_audited: true };
        // Whether this call has written the key into the audit.
        let mut is_marked = false;
        let mut answers: HashMap<i64, Operated> = HashMap::with_capacity(ids.len());
        for ids in distinct(ids).chunks(CHUNK) {
            let mut open: Vec<i64> = ids.iter().map(|id| id.0).collect();
            for _ in 0..TRIES {
                let changed = match key.filter(|_| !is_marked) {
                    None => run!(self, "act", conn => change(conn, action, open.clone(), actor))?,
                    Some(key) => {
                        match run!(self, "act", conn => change_once(conn, key, action, open.clone(), actor.name))? {
                            Once::Now(changed) => changed,
                            Once::Before(entry) => return Ok(Once::Before(entry)),
                        }
                    }
                };
                is_marked |= !changed.is_empty();
                let done: HashSet<i64> = changed.iter().map(|(id, _)| *id).collect();
                answers.extend(changed);
                open.retain(|id| !done.contains(id));
                if open.is_empty() {
                    break;
                }
                // A job that is not found keeps this answer, unless it has just moved: then the next try finds it.
                answers.extend(open.iter().map(|id| (*id, Operated::NotFound)));
                let standing = run!(self, "standing", conn => inspect::standing(conn, &open))?;
                open.clear();
                for (id, state, flags) in standing {
                    let is_known = flags::are_known(flags);
                    answers.insert(id, if is_known { Operated::Refused(state) } else { Operated::Newer });
                    if is_known && action.applies_to(state) {
                        open.push(id);
                    }
                }
                if open.is_empty() {
                    break;
                }
            }
        }
        acted(action.as_str(), answers.values().filter(|answer| answer.has_changed()).count());
        Ok(Once::Now(ids.iter().map(|id| answers.get(&id.0).copied().unwrap_or(Operated::NotFound)).collect()))
    }
}
