//! Several processes use one file. The processes are this test binary, and an environment variable selects their task.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};

use diesel_jobs_core::storage::JobFilter;
use diesel_jobs_core::{Finish, JobState, NewJob};
use diesel_jobs_storage::Database;

use super::Sqlite;
use crate::bench::*;
use crate::client::Client;
use crate::fixture::{Fixture, Port as _, open, run};

const FILE: &str = "JOBS_TEST_SQLITE_FILE";
const PROCESSES: usize = 5;
const JOBS_EACH: usize = 200;

/// The task of each process. Without the variable this test does nothing.
#[test]
fn one_of_several_processes() {
    let Ok(file) = std::env::var(FILE) else { return };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let db = open(&format!("sqlite://{file}")).await;
        let enqueuer = tokio::spawn(enqueue_one_by_one(file.clone()));
        work_until_all_is_done(&db, &file).await;
        enqueuer.await.unwrap();
    });
}

async fn enqueue_one_by_one(file: String) {
    let mut conn = tokio::task::spawn_blocking(move || {
        use diesel::Connection;
        diesel::SqliteConnection::establish(&file).unwrap()
    })
    .await
    .unwrap();
    conn.execute("pragma busy_timeout = 120000").await.unwrap();
    for index in 0..JOBS_EACH / 2 {
        conn.enqueue(NewJob::raw("a", format!("\"{}-{index}\"", std::process::id()))).await.unwrap();
        conn.begin().await;
        conn.enqueue_all(vec![job()]).await.unwrap();
        conn.commit().await;
        tokio::task::yield_now().await;
    }
}

/// Every start of a job inserts a row, so that a job that ran twice is visible.
async fn work_until_all_is_done(db: &Database, file: &str) {
    use diesel::Connection;
    let mut conn = diesel::SqliteConnection::establish(file).unwrap();
    conn.execute("pragma busy_timeout = 120000").await.unwrap();
    let worker = worker(db).await;
    let mut heartbeat = db.storage.open_heartbeat(worker).await.unwrap();
    loop {
        let jobs = claim(db, worker, 10).await;
        assert!(heartbeat.beat(false, HOUR).await.unwrap().is_some());
        for job in &jobs {
            conn.execute(&format!("insert into effect (name) values ('{}')", job.lease.job)).await.unwrap();
        }
        let batch: Vec<Finish> = jobs.iter().map(|job| Finish::new(job, DONE)).collect();
        assert_eq!(db.storage.finish_all(&batch).await.unwrap().len(), jobs.len());
        if jobs.is_empty() {
            let all = "select count(*) as number from jobs_job where state = 'completed'";
            if conn.number(all).await == i64::try_from(PROCESSES * JOBS_EACH).unwrap() {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    }
}

#[test]
fn several_processes_share_a_file_and_none_finds_it_locked() {
    run::<Sqlite, _>(async |f: Sqlite| {
        let processes: Vec<_> = (0..PROCESSES)
            .map(|_| {
                Command::new(std::env::current_exe().unwrap())
                    .args(["sqlite::processes::one_of_several_processes", "--exact", "--nocapture"])
                    .env(FILE, f.url().trim_start_matches("sqlite://"))
                    .stdout(Stdio::piped())
                    .stderr(Stdio::piped())
                    .spawn()
                    .unwrap()
            })
            .collect();
        for process in processes {
            let output = tokio::task::spawn_blocking(|| process.wait_with_output().unwrap()).await.unwrap();
            let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success() && text.contains("1 passed"), "{text}");
        }
        let jobs = f.database().operator.list_all(&JobFilter::default(), 100_000).await.unwrap();
        assert_eq!(jobs.len(), PROCESSES * JOBS_EACH);
        let mut client = f.client().await;
        let mut starts = BTreeMap::new();
        for job in &jobs {
            assert_eq!((job.state, job.attempt), (JobState::Completed, 1));
            let started = format!("select count(*) as number from effect where name = '{}'", job.id);
            *starts.entry(client.number(&started).await).or_insert(0) += 1;
        }
        assert_eq!(starts, BTreeMap::from([(1, PROCESSES * JOBS_EACH)]), "starts per job");
    });
}

#[test]
fn several_processes_open_a_new_file_at_once() {
    run::<Sqlite, _>(async |f: Sqlite| {
        for round in 0..5 {
            let file = f.directory().join(format!("new-{round}.db"));
            let url = format!("sqlite://{}", file.display());
            // Threads with connections of their own wait for the same locks as processes do.
            let opened: Vec<_> = (0..8)
                .map(|_| {
                    let url = url.clone();
                    tokio::spawn(async move {
                        let db = open(&url).await;
                        db.migrator.up().await.unwrap();
                        db.storage.check_schema().await.unwrap();
                    })
                })
                .collect();
            for one in opened {
                one.await.unwrap();
            }
        }
    });
}
