//! How many permits of a limit are free. Passes, sweeps, finishes that pass permits on, jobs with several rules and
//! `on_full` have each a statement of their own that says it, on each database, and they must agree.

use diesel_jobs_core::storage::{Action, PassOn, WaitEnd};
use diesel_jobs_core::{ClaimedJob, Finish, JobId, Limit, NewJob, OnFull};
use diesel_jobs_storage::Database;

use crate::bench::*;
use crate::fixture::Fixture;
use crate::limiting::admit;

/// So many jobs wait for the limit.
const WAITING: usize = 4;

struct Case {
    /// The number of the jobs that wait.
    most: u32,
    /// The number that an operator has set.
    set: Option<u32>,
    /// How many jobs have started, with a larger number of their own.
    started: usize,
    /// How many of those that wait may start.
    start: usize,
}

const fn case(most: u32, set: Option<u32>, started: usize, start: usize) -> Case {
    Case { most, set, started, start }
}

const CASES: [Case; 13] = [
    case(1, None, 0, 1),
    case(3, None, 0, 3),
    case(3, None, 2, 1),
    case(3, None, 3, 0),
    // Those that have started may be more than the first one that waits allows.
    case(3, None, 5, 0),
    case(9, None, 1, 4),
    case(4, None, 0, 4),
    case(3, Some(0), 0, 0),
    case(3, Some(0), 2, 0),
    case(1, Some(3), 1, 2),
    case(5, Some(2), 1, 1),
    case(5, Some(2), 4, 0),
    case(2, Some(2), 0, 2),
];

/// The name of a limit, of which there is one in each case.
struct Name(String);

impl Name {
    fn limit(&self, most: u32) -> Limit {
        Limit::new(self.0.clone(), most).key("x")
    }

    fn job(&self, most: u32) -> NewJob {
        job().rule(self.limit(most)).unwrap()
    }
}

/// Starts these jobs of a limit, as far as its other jobs have left permits.
async fn start<F: Fixture>(f: &F, name: &Name, jobs: usize) -> Vec<ClaimedJob> {
    enqueue_all(f, vec![name.job(20); jobs]).await;
    assert_eq!(admit(f.database()).await, jobs);
    let claimed = claim(f.database(), worker(f.database()).await, 99).await;
    assert_eq!(claimed.len(), jobs);
    claimed
}

/// For each case, lets as many jobs start as it says, and then enqueues those that wait. `more`: so many more have
/// started. Then `starts` says how many of those that wait may start.
async fn each_case<F: Fixture>(
    f: &F,
    way: &str,
    more: usize,
    waiting: impl Fn(&Name, u32) -> NewJob,
    starts: impl AsyncFn(&Case, &[ClaimedJob], &[JobId]) -> usize,
) {
    let db = f.database();
    for (number, case) in CASES.iter().enumerate() {
        let name = Name(format!("{way}{number}"));
        let running = start(f, &name, case.started + more).await;
        if let Some(set) = case.set {
            assert!(db.operator.set_limit(&name.0, set, "ann", None).await.unwrap());
            // What the change has nudged.
            assert_eq!(admit(db).await, 0);
        }
        let held = enqueue_all(f, vec![waiting(&name, case.most); WAITING]).await;
        let Case { most, set, started, start } = case;
        assert_eq!(
            starts(case, &running, &held).await,
            *start,
            "{way}: {most} at once, {set:?} is set, {started} have started"
        );
        let all: Vec<JobId> = ids(&running).into_iter().chain(held).collect();
        db.operator.act(&Action::Cancel, &all, "ann").await.unwrap();
    }
}

/// Passes until nothing more starts.
async fn settle(db: &Database) -> usize {
    let mut admitted = 0;
    loop {
        let found = db.storage.admit(false).await.unwrap();
        admitted += found.admitted;
        if found.admitted == 0 && !found.more {
            return admitted;
        }
    }
}

pub(crate) async fn a_pass_starts_as_many_as_there_are_free_permits<F: Fixture>(f: F) {
    let db = f.database();
    each_case(&f, "pass", 0, Name::job, async |_, _, _| admit(db).await).await;
}

pub(crate) async fn a_sweep_starts_as_many_as_there_are_free_permits<F: Fixture>(f: F) {
    let db = f.database();
    each_case(&f, "sweep", 0, Name::job, async |_, _, _| {
        f.client().await.execute(&format!("delete from {}", F::table("nudge"))).await.unwrap();
        db.storage.admit(true).await.unwrap().admitted
    })
    .await;
}

/// The finish frees two permits. It passes on what it may, and a pass finds the others.
pub(crate) async fn a_finish_passes_on_no_more_than_there_are_free_permits<F: Fixture>(f: F) {
    let db = f.database();
    each_case(&f, "passed on", 2, Name::job, async |case, running, held| {
        let finishes: Vec<Finish> = running[..2].iter().map(|job| Finish::new(job, DONE)).collect();
        let finished = db.storage.finish(&finishes, PassOn::Permits).await.unwrap();
        assert_eq!(finished.moved.len(), 2);
        // SQLite passes nothing on, and PostgreSQL leaves some jobs to admission.
        if F::TABLES.contains(&"ready") && held[..2].iter().all(|id| id.0 % 256 != 0) {
            assert_eq!(finished.passed_on, case.start.min(2), "{:?} set, {} started", case.set, case.started);
        }
        finished.passed_on + admit(db).await
    })
    .await;
}

pub(crate) async fn a_limit_beside_another_has_as_many_free_permits<F: Fixture>(f: F) {
    let db = f.database();
    let with_another = |name: &Name, most| name.job(most).rule(Limit::new("wide", 100)).unwrap();
    each_case(&f, "second", 0, with_another, async |_, _, _| settle(db).await).await;
}

/// Those that may not start are discarded, without a pass before it.
pub(crate) async fn a_job_is_discarded_if_no_permit_is_free<F: Fixture>(f: F) {
    let db = f.database();
    let hasty = |name: &Name, most| job().rule(name.limit(most).on_full(OnFull::Discard)).unwrap();
    each_case(&f, "full", 0, hasty, async |_, _, _| {
        let ends = db.storage.end_waiting(WaitEnd::LimitFull, POLICY.retention).await.unwrap();
        WAITING - ends.ended.len()
    })
    .await;
}
