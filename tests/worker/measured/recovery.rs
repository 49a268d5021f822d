//! The limit for a killed worker: its jobs run elsewhere within the lease and five seconds.

use std::time::{Duration, Instant};

use diesel_jobs::JobState;
use support::{Db, Process};
use worker_app::Linger;

use crate::table::{alone_on, print, row};

const LEASE: Duration = Duration::from_secs(3);
const ROUNDS: usize = 4;

fn start(db: &Db) -> Process {
    let args = ["run", "--lease", "3s", "--poll-interval", "100ms"];
    let mut worker = Process::worker(env!("CARGO_BIN_EXE_worker-app"), db.url(), args);
    worker.await_line("worker started");
    worker
}

async fn jobs_of_a_killed_worker_run_elsewhere_within_the_lease_and_five_seconds(db: Db) {
    let mut victim = start(&db);
    let mut waits = Vec::new();
    for _ in 0..ROUNDS {
        let id = db.enqueue(Linger { millis: 600_000 }).await;
        db.await_state(id, JobState::Running).await;
        let heir = start(&db);
        victim.kill();
        let killed = Instant::now();
        db.await_state(id, JobState::Completed).await;
        waits.push(killed.elapsed());
        victim = heir;
    }
    let seconds = |time: &Duration| format!("{:.2}", time.as_secs_f64());
    let (best, worst) = (waits.iter().min().unwrap(), waits.iter().max().unwrap());
    print(
        "kill -9 with a lease of 3 s, seconds until the job is done elsewhere",
        &[
            row!["kills", "best", "worst", "bar"],
            row![ROUNDS, seconds(best), seconds(worst), seconds(&(LEASE + Duration::from_secs(5)))],
        ],
    );
    assert!(*worst <= LEASE + Duration::from_secs(5), "{waits:?}");
}

alone_on! {
    on_postgres by postgres { jobs_of_a_killed_worker_run_elsewhere_within_the_lease_and_five_seconds }
    on_sqlite by sqlite { jobs_of_a_killed_worker_run_elsewhere_within_the_lease_and_five_seconds }
}
