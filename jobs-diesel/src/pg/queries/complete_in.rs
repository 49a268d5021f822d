//! `complete_in`: `complete` of one job at the end of its handler's transaction, as text: it is sent together with the `COMMIT`.
//!
//! It fails if the lease is gone, so that the server does not come to the `COMMIT`: no row moved means a null where a number
//! has to be, and the text that is cast to a number instead is none. It depends on the row, or the planner would cast it.
//!
//! It waits for whoever has locked the row: only this handler waits. The row is looked up by its key alone, so that any
//! statistics lead to the index, as long as the planner does not take an empty table for one that is quickly read
//! (`enable_seqscan`, which the message around it sets).

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::LazyLock;

use diesel_jobs_core::{Keep, Lease, Transition};

use super::columns::{CARRIED, FINISHED};
use crate::pg::native::seconds;

/// In the error that says that no row was moved, whatever the language of the server.
const GONE: &str = "is not under this lease any more";
/// `$1` is the job, `$2` the lease's number, `$3` the worker, `$4` seconds from now until the row may be pruned.
const TYPES: &str = "bigint, integer, uuid, float8";

/// Of jobs that become history.
static KEPT: LazyLock<Statement> = LazyLock::new(|| {
    Statement::new(format!(
        "with moved as (
    delete from jobs.running r
    where r.id = $1 and r.lease = $2 and r.worker = $3
    returning r.*
)
insert into jobs.finished ({FINISHED}, {CARRIED})
select coalesce(id, concat('job ', $1, ' {GONE}', id)::bigint), run_at, claimed_at, now() + make_interval(secs => $4), lease, 1, attempt, max_attempts, crashes, worker, {CARRIED}
from (values (1)) as one left join moved on true"
    ))
});

/// Of jobs that are not kept; see `delete` for what goes with them.
static FORGOTTEN: LazyLock<Statement> = LazyLock::new(|| {
    Statement::new(format!(
        "with moved as (
    delete from jobs.running r
    where r.id = $1 and r.lease = $2 and r.worker = $3
    returning r.id, r.args is null as large
), emptied as (
    delete from jobs.payload where job_id = any(array(select id from moved where large))
), forgotten as (
    delete from jobs.job_error where job_id = any(array(select id from moved where $2 > 1))
)
select coalesce(id, concat('job ', $1, ' {GONE}', id)::bigint)
from (values (1)) as one left join moved on true"
    ))
});

struct Statement {
    /// Of the prepared one. It tells the texts of different programs apart: a session may be older than its client.
    name: String,
    text: String,
}

impl Statement {
    fn new(text: String) -> Self {
        let mut hash = DefaultHasher::new();
        text.hash(&mut hash);
        Self { name: format!("{PREFIX}{:016x}", hash.finish()), text }
    }
}

const PREFIX: &str = "complete_in_";

/// Prepares both in a session.
pub(crate) fn prepare() -> String {
    let prepare = |Statement { name, text }: &Statement| format!("prepare {name} ({TYPES}) as {text};\n");
    prepare(&KEPT) + &prepare(&FORGOTTEN)
}

/// The completion of one job.
pub(crate) struct CompleteIn {
    statement: &'static Statement,
    values: [String; 4],
}

impl CompleteIn {
    /// `None`: this end needs `finish`.
    pub(crate) fn new(lease: Lease, transition: &Transition) -> Option<Self> {
        let Transition::Complete(keep) = transition else { return None };
        let (statement, keep) = match keep {
            Keep::For(time) => (&*KEPT, Some(seconds(*time))),
            Keep::Forever => (&*KEPT, None),
            Keep::Nothing => (&*FORGOTTEN, None),
        };
        let values = [
            format!("bigint '{}'", lease.job.0),
            format!("integer '{}'", lease.number),
            format!("uuid '{}'", lease.worker.0),
            keep.map_or_else(|| "null::float8".to_owned(), |keep| format!("float8 '{keep:?}'")),
        ];
        Some(Self { statement, values })
    }

    /// In a session in which it is prepared: a third of the work.
    pub(crate) fn prepared(&self) -> String {
        format!("execute {} ({})", self.statement.name, self.values.join(", "))
    }

    /// In any session.
    pub(crate) fn in_full(&self) -> String {
        let mut text = self.statement.text.clone();
        for (number, value) in (1..).zip(&self.values) {
            text = text.replace(&format!("${number}"), value);
        }
        text
    }
}

/// Whether an error of the server's says that the job was not under the lease.
pub(crate) fn says_gone(message: &str) -> bool {
    message.contains(GONE)
}

/// Whether an error of the server's says that what was prepared is not there, or is there already: another client's session.
pub(crate) fn says_not_prepared(message: &str) -> bool {
    message.contains(PREFIX)
}
