//! Tenants, with whole workers: a tenant with many jobs does not delay the others.

use std::sync::{Arc, Mutex};

use diesel_jobs::rules::Limit;
use diesel_jobs::{Job as _, JobContext, JobError, JobId, JobState, State, job};
use support::{Db, Running, registry};

/// The tenants of the handlers, in the order in which they have started.
#[derive(Clone, Default)]
struct Starts(Arc<Mutex<Vec<i64>>>);

impl Starts {
    fn all(&self) -> Vec<i64> {
        self.0.lock().unwrap().clone()
    }
}

#[job(concurrency("reports", limit = 1), fair(by(tenant)), backoff = "fixed(1ms)", max_attempts = 2)]
async fn report(ctx: &JobContext, tenant: i64, fails: bool, State(starts): State<Starts>) -> Result<(), JobError> {
    starts.0.lock().unwrap().push(tenant);
    if fails && ctx.attempt() == 1 { Err(JobError::msg("once more")) } else { Ok(()) }
}

async fn run(db: &Db, starts: &Starts, ids: &[JobId]) {
    let worker = Running::start(db.worker(registry![Report]).state(starts.clone()).slots(4));
    for id in ids {
        db.await_state(*id, JobState::Completed).await;
    }
    worker.stop().await;
}

async fn tenants_take_turns(db: Db) {
    let (starts, mut ids) = (Starts::default(), Vec::new());
    for tenant in [1; 12].into_iter().chain([2; 3]).chain([3; 3]) {
        ids.push(db.enqueue(Report { tenant, fails: false }).await);
    }
    run(&db, &starts, &ids).await;
    let all = starts.all();
    assert_eq!(all.len(), 18);
    assert_eq!(all[..9], [1, 2, 3, 1, 2, 3, 1, 2, 3]);
}

async fn a_retry_waits_for_its_tenants_turn(db: Db) {
    let (starts, mut ids) = (Starts::default(), Vec::new());
    for tenant in [1, 1, 2, 2, 2] {
        ids.push(db.enqueue(Report { tenant, fails: tenant == 1 }).await);
    }
    run(&db, &starts, &ids).await;
    let all = starts.all();
    assert_eq!(all.len(), 7, "{all:?}");
    // Two failures of the tenant 1, and jobs of the tenant 2 between them. The last retry may come due after all
    // others.
    assert_eq!(all[..4], [1, 2, 1, 2], "{all:?}");
}

async fn one_job_has_a_tenant_of_its_own(db: Db) {
    let (starts, mut ids) = (Starts::default(), Vec::new());
    for (tenant, own) in [(1, "a"), (2, "a"), (3, "a"), (4, "b")] {
        let limit = Limit::new("own", 1).fair_by(own);
        ids.push(db.enqueue(Report { tenant, fails: false }.concurrency(limit)).await);
    }
    run(&db, &starts, &ids).await;
    assert_eq!(starts.all(), [1, 4, 2, 3]);
}

support::on_each_database! {
    tenants_take_turns,
    a_retry_waits_for_its_tenants_turn,
    one_job_has_a_tenant_of_its_own,
}
