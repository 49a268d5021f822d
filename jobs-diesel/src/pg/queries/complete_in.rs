//! `complete_in`: completes one job at the end of its handler's transaction. It is text, because it is sent in one
//! message with the `COMMIT`.
//!
//! It fails if the lease is lost, so that the server does not execute the `COMMIT`. If no row was moved, `id` is null.
//! Then a text that is not a number is cast to a number, and this cast fails. The text contains `id`, because the
//! planner would evaluate a constant cast in any case.
//!
//! If another session has locked the row, it waits. Only this handler waits then. The row is looked up by its key
//! alone, so that the planner uses the index with any statistics. There is one exception: the planner prefers to read
//! the whole table if it takes the table for empty. The message around this statement forbids that with
//! `enable_seqscan`.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::LazyLock;

use diesel_jobs_core::{Finish, Keep, Transition};

use super::columns::{CARRIED, FINISHED};
use crate::pg::native::seconds;

/// A part of the error if no row was moved. It does not depend on the language of the server.
const LEASE_LOST: &str = "is not under this lease any more";
/// `$1` is the job, `$2` the lease's number, `$3` the worker, `$4` seconds from now until the row may be pruned.
const TYPES: &str = "bigint, integer, uuid, float8";

/// For jobs that are kept.
static KEPT: LazyLock<Statement> = LazyLock::new(|| {
    Statement::new(format!(
        "with moved as (
    delete from jobs.running r
    where r.id = $1 and r.lease = $2 and r.worker = $3
    returning r.*
)
insert into jobs.finished ({FINISHED}, {CARRIED})
select coalesce(id, concat('job ', $1, ' {LEASE_LOST}', id)::bigint), run_at, claimed_at, now() + make_interval(secs => $4), lease, 1, attempt, max_attempts, crashes, worker, {CARRIED}
from (values (1)) as one left join moved on true"
    ))
});

/// For jobs that are not kept. See `delete` for the other rows that are deleted with them.
static DELETED: LazyLock<Statement> = LazyLock::new(|| {
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
select coalesce(id, concat('job ', $1, ' {LEASE_LOST}', id)::bigint)
from (values (1)) as one left join moved on true"
    ))
});

struct Statement {
    /// The name of the prepared statement. It contains a hash of the text, so that different programs have different
    /// names. A session may be older than its client.
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

/// Returns the SQL that prepares both statements in a session.
pub(crate) fn prepare() -> String {
    let prepare = |Statement { name, text }: &Statement| format!("prepare {name} ({TYPES}) as {text};\n");
    prepare(&KEPT) + &prepare(&DELETED)
}

/// The completion of one job.
pub(crate) struct CompleteIn {
    statement: &'static Statement,
    values: [String; 4],
}

impl CompleteIn {
    /// Returns `None` if this job or this transition needs `finish`. An output is stored before, by a statement of its
    /// own.
    pub(crate) fn new(Finish { lease, flags, transition }: &Finish) -> Option<Self> {
        let (Transition::Complete(keep) | Transition::CompleteWith(keep, _)) = transition else { return None };
        if flags.gives_back() {
            return None;
        }
        let (statement, keep) = match keep {
            Keep::For(time) => (&*KEPT, Some(seconds(*time))),
            Keep::Forever => (&*KEPT, None),
            Keep::Nothing => (&*DELETED, None),
        };
        let values = [
            format!("bigint '{}'", lease.job.0),
            format!("integer '{}'", lease.number),
            format!("uuid '{}'", lease.worker.0),
            keep.map_or_else(|| "null::float8".to_owned(), |keep| format!("float8 '{keep:?}'")),
        ];
        Some(Self { statement, values })
    }

    /// The SQL for a session in which the statement is prepared. It takes a third of the work of
    /// [`in_full`](Self::in_full).
    pub(crate) fn prepared(&self) -> String {
        format!("execute {} ({})", self.statement.name, self.values.join(", "))
    }

    /// The SQL for any session.
    pub(crate) fn in_full(&self) -> String {
        let mut text = self.statement.text.clone();
        for (number, value) in (1..).zip(&self.values) {
            text = text.replace(&format!("${number}"), value);
        }
        text
    }
}

/// Whether a message of the server means that the job was not under the lease.
pub(crate) fn says_lease_lost(message: &str) -> bool {
    message.contains(LEASE_LOST)
}

/// Whether a message of the server means that a prepared statement does not exist, or exists already. Then another
/// client has used the session.
pub(crate) fn says_not_prepared(message: &str) -> bool {
    message.contains(PREFIX)
}
