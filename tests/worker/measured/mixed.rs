//! Forty jobs of four kinds that take 10 to 40 ms, on four workers with one slot each. A quarter of the jobs fail at
//! first. Every job is started once per attempt, and no two workers ever hold the same job.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use chrono::TimeDelta;
use diesel_jobs::enqueue::IntoNewJob as _;
use diesel_jobs::{JobContext, JobError, JobState, State, Worker, job};
use support::{Db, Running, registry};

use crate::table::{alone, print, row};

/// Every start, with the job and the attempt.
#[derive(Clone, Default)]
struct Starts(Arc<Mutex<Vec<(diesel_jobs::JobId, u16)>>>);

async fn work(millis: u64, fails: bool, ctx: &JobContext, starts: &Starts) -> Result<(), JobError> {
    starts.0.lock().unwrap().push((ctx.id(), ctx.attempt()));
    tokio::time::sleep(Duration::from_millis(millis)).await;
    if fails && ctx.attempt() == 1 { Err(JobError::msg("at first")) } else { Ok(()) }
}

/// Defines one kind of job.
macro_rules! executor {
    ($function:ident, $millis:literal) => {
        #[job(max_attempts = 3, backoff = "fixed(20ms)")]
        async fn $function(fails: bool, ctx: &JobContext, State(starts): State<Starts>) -> Result<(), JobError> {
            work($millis, fails, ctx, &starts).await
        }
    };
}

executor!(resize_image, 10);
executor!(send_mail, 20);
executor!(index_page, 30);
executor!(render_report, 40);

#[test]
fn forty_jobs_on_four_executors_a_quarter_of_them_failing() {
    let _alone = alone();
    support::run(Db::postgres(), async |db| {
        let starts = Starts::default();
        let all = (0..10).flat_map(|number| {
            // The last two or three jobs of each kind fail, which is ten of forty.
            let fails = |kind: usize| number >= if kind.is_multiple_of(2) { 8 } else { 7 };
            [
                ResizeImage { fails: fails(0) }.into_new_job(),
                SendMail { fails: fails(1) }.into_new_job(),
                IndexPage { fails: fails(2) }.into_new_job(),
                RenderReport { fails: fails(3) }.into_new_job(),
            ]
        });
        let ids = db.conn().await.enqueue_all(all.map(|job| job.unwrap())).await;
        let mut workers = Vec::new();
        for _ in 0..4 {
            let registry = registry![ResizeImage, SendMail, IndexPage, RenderReport];
            let worker = Worker::builder(db.again().await.storage).registry(registry).state(starts.clone()).slots(1);
            workers.push(Running::start(worker.poll_interval(Duration::from_millis(50))));
        }
        db.await_number(40, "select count(*) as number from jobs.job where state = 'completed'").await;
        let mut conflicts = 0;
        for worker in workers {
            conflicts += worker.stop().await.leases_lost;
        }

        let mut kinds: BTreeMap<String, (u32, u32, u32, u32, TimeDelta, TimeDelta)> = BTreeMap::new();
        let mut attempts = Vec::new();
        for id in ids {
            let (job, failures) = db.show(id).await;
            attempts.extend((1..=job.attempt).map(|attempt| (id, attempt)));
            let (enqueued, completed, retried, discarded, wait, run) = kinds.entry(job.kind.clone()).or_default();
            *enqueued += 1;
            *completed += u32::from(job.state == JobState::Completed);
            *discarded += u32::from(job.state == JobState::Discarded);
            *retried += u32::try_from(failures.len()).unwrap();
            *wait += job.claimed_at.unwrap() - job.run_at;
            *run += job.finished_at.unwrap() - job.claimed_at.unwrap();
        }
        let mut rows = vec![row!["kind", "enqueued", "completed", "retried", "discarded", "avg wait ms", "avg run ms"]];
        for (kind, (enqueued, completed, retried, discarded, wait, run)) in &kinds {
            let average = |sum: &TimeDelta| format!("{:.1}", sum.as_seconds_f64() * 1e3 / f64::from(*enqueued));
            rows.push(row![kind, enqueued, completed, retried, discarded, average(wait), average(run)]);
        }
        print(&format!("40 jobs, 4 executors, a quarter failing at first; conflicts: {conflicts}"), &rows);

        let mut started = starts.0.lock().unwrap().clone();
        started.sort_unstable();
        attempts.sort_unstable();
        assert_eq!(started, attempts, "each attempt was started once");
        assert_eq!(started.len(), 50, "forty first attempts and ten second ones");
        assert_eq!(conflicts, 0);
    });
}
