//! Exactly-once effects: the effect of a transactional job exists once, together with its completion, and never without
//! it.

use crate::checker::{Kind, Run, Violation};
use crate::history::CommitOutcome;

pub(super) fn check(run: &Run<'_>) -> Vec<Violation> {
    let mut found = Vec::new();
    for enqueued in run.record.enqueued.iter().filter(|row| row.transactional) {
        let (number, effects) = (enqueued.number, run.effects(enqueued.number));
        if effects.len() > 1 {
            let leases: Vec<String> = effects.iter().map(|effect| effect.lease.to_string()).collect();
            let what = format!("its effect is there {} times, under leases {}", effects.len(), leases.join(", "));
            found.push(Violation::new(Kind::DoubleEffect, number, what));
            continue;
        }
        let [effect] = effects else { continue };
        let Some([job]) = run.jobs.get(&number).map(Vec::as_slice) else {
            if enqueued.outcome != CommitOutcome::RolledBack {
                found.push(Violation::new(Kind::StaleWrite, number, "there is an effect of it, and no job"));
            }
            continue;
        };
        if job.state != "completed" {
            let what = format!("its effect stands (lease {}), and it is {}", effect.lease, job.state);
            found.push(Violation::new(Kind::StaleWrite, number, what));
        } else if (effect.lease, Some(effect.worker)) != (job.lease, job.worker) {
            let what = format!("lease {} completed it, and the effect is of lease {}", job.lease, effect.lease);
            found.push(Violation::new(Kind::StaleWrite, number, what));
        }
    }
    found
}
