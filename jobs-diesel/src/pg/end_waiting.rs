//! `end_waiting`: ends jobs that wait no longer. All jobs that end for the same reason are one statement. If the
//! database refuses it, they end one by one, and a job that it refuses again is noted in `jobs.admission_failure`. So
//! it stops no other, and is left out until the time that is stored there.

use diesel_async::RunQueryDsl;
use diesel_jobs_core::storage::{Ends, StorageResult};
use diesel_jobs_core::{JobId, JobState, Retention, StorageError};

use super::queries::end_waiting::{Ending, NoteQuery, ended_as};
use super::queries::expire::{DueQuery, ExpireQuery};
use super::queries::full_limits;
use super::refused::{if_possible, run_apart};
use super::{PgStorage, native, run};
use crate::meaning::row;

/// The answer after these problems. A missing right must not pass for the fault of some jobs: it is not theirs if all
/// have ended alone, or if none has.
fn answer(ends: Ends, problems: Vec<StorageError>) -> StorageResult<Ends> {
    let may_be_general = ends.refused.is_empty() || ends.ended.is_empty();
    match problems.into_iter().find(row::is_general) {
        Some(problem) if may_be_general => Err(problem),
        _ => Ok(ends),
    }
}

impl PgStorage {
    /// Cancels jobs that have expired.
    pub(super) async fn end_expired(&self, retention: Retention) -> StorageResult<Ends> {
        let keep_seconds = native::seconds(retention.cancelled);
        let query = || ExpireQuery::new(keep_seconds);
        let (mut ends, mut problems) = (Ends::default(), Vec::new());
        match run!(self, "expire", conn => query().load(conn)) {
            Err(problem) if row::is_answer(&problem) => {
                problems.push(problem);
                let ids = run!(self, "expire", conn => DueQuery::new().load(conn))?;
                self.end_each(&Ending::expired(ids, keep_seconds), &mut ends, &mut problems).await?;
            }
            ended => ends.ended = ended_as(JobState::Cancelled, ended?),
        }
        answer(ends, problems)
    }

    /// Ends jobs that find their limit full.
    pub(super) async fn end_full(&self, retention: Retention) -> StorageResult<Ends> {
        let (mut ends, mut problems) = (Ends::default(), Vec::new());
        for ending in run!(self, "end_full", conn => full_limits::find(conn, retention))? {
            match run!(self, "end_full", conn => ending.end(conn, &ending.ids)) {
                Err(problem) if row::is_answer(&problem) => {
                    problems.push(problem);
                    self.end_each(&ending, &mut ends, &mut problems).await?;
                }
                ended => ends.ended.extend(ended?),
            }
        }
        answer(ends, problems)
    }

    /// Ends these jobs one by one, each in a transaction of its own.
    async fn end_each(&self, ending: &Ending, ends: &mut Ends, problems: &mut Vec<StorageError>) -> StorageResult<()> {
        for id in &ending.ids {
            let one = std::slice::from_ref(id);
            let set_apart = async { if_possible(self.set_history_apart(one).await) };
            match run_apart!(self, "end_waiting", set_apart, conn => ending.end(conn, one)) {
                Err(problem) if row::is_answer(&problem) => {
                    let note = || NoteQuery { id: *id, problem: problem.to_string() };
                    let noted: Vec<(String, String)> = run!(self, "end_waiting", conn => note().load(conn))?;
                    for (kind, queue) in noted {
                        ends.refuse(JobId(*id), &kind, &queue, &problem);
                    }
                    problems.push(problem);
                }
                ended => ends.ended.extend(ended?),
            }
        }
        Ok(())
    }
}
