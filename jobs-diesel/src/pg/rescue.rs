//! `rescue`: frees the jobs of dead workers with one statement. If the database refuses it, the jobs that are the cause
//! are searched for, noted in `jobs.admission_failure`, and left out until the time that is stored there. So they stop
//! no other.
//!
//! The search tries ever fewer jobs and rolls each try back. It does not free them one by one, because the decision on
//! a crash depends on how many jobs the worker had.

use std::time::{Duration, Instant};

use diesel::QueryResult;
use diesel::result::Error;
use diesel_async::{AsyncConnection as _, AsyncPgConnection, RunQueryDsl, SimpleAsyncConnection as _};
use diesel_jobs_core::storage::{CrashedAttempt, RescuePolicy, Rescued, StorageResult};
use diesel_jobs_core::{JobId, StorageError};

use super::queries::end_waiting::NoteQuery;
use super::queries::rescue::{LostQuery, RescueQuery};
use super::refused::{if_possible, run_apart};
use super::{PgStorage, run};
use crate::meaning::row;

/// The search for refused jobs takes about this long at most, so that few heartbeats of the rescuer fall into it.
const SEARCH: Duration = Duration::from_secs(3);

/// The job's id, queue and kind, whether it was released because its worker was killed, and whether it was discarded;
/// what was woken. Then four facts: whether quarantined jobs are due, whether rows were left behind, whether the
/// rescue was held off, and whether the rescuer has sent a heartbeat meanwhile.
type RescuedRow =
    (Option<i64>, Option<String>, Option<String>, Option<bool>, Option<bool>, i64, bool, bool, bool, bool);

fn rescued(rows: Vec<RescuedRow>) -> Rescued {
    let mut rescued = Rescued::default();
    for (id, queue, kind, killed, discarded, _, quarantined_due, left_behind, held_off, has_beaten) in rows {
        rescued = Rescued { quarantined_due, left_behind, held_off, has_beaten, ..rescued };
        if let (Some(id), Some(queue), Some(kind), Some(discarded)) = (id, queue, kind, discarded) {
            if killed == Some(true) {
                rescued.released.push(JobId(id));
                continue;
            }
            rescued.attempts.push(CrashedAttempt { queue, kind, discarded });
            if discarded { &mut rescued.discarded } else { &mut rescued.returned }.push(JobId(id));
        }
    }
    rescued
}

/// Runs the statement and undoes it. Deferred triggers, which else run at the commit, run before that. Returns the jobs
/// that it has moved: those that another session has locked are passed over, and nothing is known of them.
async fn undone(conn: &mut AsyncPgConnection, query: RescueQuery<'_>) -> QueryResult<Vec<i64>> {
    let mut moved = Vec::new();
    let tried = conn.transaction(async |conn| {
        moved = query.load::<RescuedRow>(conn).await?.into_iter().filter_map(|row| row.0).collect();
        conn.batch_execute("set constraints all immediate").await?;
        QueryResult::<()>::Err(Error::RollbackTransaction)
    });
    match tried.await {
        Err(Error::RollbackTransaction) => Ok(moved),
        tried => tried.map(|()| moved),
    }
}

impl PgStorage {
    pub(super) async fn rescue_lost(&self, policy: RescuePolicy) -> StorageResult<Rescued> {
        let all = || RescueQuery::new(policy, None);
        let set_apart = async { if_possible(self.set_running_apart().await) };
        match run_apart!(self, "rescue", set_apart, conn => all().load(conn)) {
            Err(problem) if row::is_answer(&problem) => self.rescue_others(policy, problem).await,
            rows => Ok(rescued(rows?)),
        }
    }

    /// Frees those that the database does not refuse, and notes the others. `problem` is why not all were freed.
    async fn rescue_others(&self, policy: RescuePolicy, problem: StorageError) -> StorageResult<Rescued> {
        let ids: Vec<i64> = run!(self, "rescue", conn => LostQuery::new().load(conn))?;
        let (passed, mut refused) = self.try_each(policy, &ids).await?;
        if passed.is_empty() && refused.is_empty() {
            return Err(problem);
        }
        // A missing right must not pass for the fault of some jobs if it stops all of them.
        if passed.is_empty()
            && let Some(place) = refused.iter().position(|(_, problem)| row::is_general(problem))
        {
            return Err(refused.swap_remove(place).1);
        }
        let mut noted = Rescued::default();
        for (id, problem) in refused {
            let note = || NoteQuery { id, problem: problem.to_string() };
            let jobs: Vec<(String, String)> = run!(self, "rescue", conn => note().load(conn))?;
            for (kind, queue) in jobs {
                noted.refuse(JobId(id), &kind, &queue, &problem);
            }
        }
        let others = || RescueQuery::new(policy, Some(&passed));
        let rows = run!(self, "rescue", conn => others().load(conn))?;
        Ok(Rescued { refused: noted.refused, ..rescued(rows) })
    }

    /// Returns the jobs of which the database refuses none, and those that it refuses, with the reason. Those that were
    /// not tried within some seconds are in neither list, and a later rescue goes on.
    async fn try_each(&self, policy: RescuePolicy, ids: &[i64]) -> StorageResult<(Vec<i64>, Vec<(i64, StorageError)>)> {
        let (mut passed, mut refused, mut parts) = (Vec::new(), Vec::new(), vec![ids]);
        let began = Instant::now();
        while let Some(part) = parts.pop().filter(|_| self.stopwatch().since(began) < SEARCH) {
            let query = || RescueQuery::new(policy, Some(part));
            let set_apart = async { if_possible(self.set_history_apart(part).await) };
            match run_apart!(self, "rescue", set_apart, conn => undone(conn, query())) {
                Ok(moved) => passed.extend(moved),
                Err(problem) if !row::is_answer(&problem) => return Err(problem),
                Err(problem) => match part {
                    [] => return Err(problem),
                    [id] => refused.push((*id, problem)),
                    part => parts.extend(<[_; 2]>::from(part.split_at(part.len() / 2))),
                },
            }
        }
        Ok((passed, refused))
    }
}
