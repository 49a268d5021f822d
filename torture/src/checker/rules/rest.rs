//! At rest: at the end of a run each job has ended, and no session is in a transaction.

use crate::checker::{Kind, Run, Violation};

pub(super) fn check(run: &Run<'_>) -> Vec<Violation> {
    let unfinished = run.record.jobs.iter().filter(|job| job.finished_at.is_none());
    let stuck = unfinished.map(|job| Violation::new(Kind::Stuck, job.number, format!("it is {} for ever", job.state)));
    let open = run.record.open.iter().map(|session| Violation {
        kind: Kind::OpenTransaction,
        number: None,
        what: format!("session {} for {:.1} s, after: {}", session.pid, session.seconds, session.query),
    });
    stuck.chain(open).collect()
}
