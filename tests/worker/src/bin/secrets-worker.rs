//! A worker that receives secrets, with a job for each way in which a job can end. No handler prints them. So if the
//! output of this process contains a secret, other code has printed it.

use std::time::Duration;

use diesel::Connection as _;
use diesel::connection::SimpleConnection as _;
use diesel_async::AsyncConnection as _;
use diesel_jobs::{Enqueue as _, JobError, State, WorkerBuilder, job};
use serde::{Deserialize, Serialize};

/// The state that the handlers share.
#[derive(Clone, Debug)]
struct Vault {
    /// The database's URL, with its password.
    url: String,
    /// Another secret.
    key: String,
}

/// Accepts only the empty text. The error for any other text contains that text.
#[derive(Serialize, Deserialize)]
#[serde(try_from = "String")]
struct Choosy;

impl TryFrom<String> for Choosy {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        if text.is_empty() { Ok(Self) } else { Err(format!("{text}, expected {text}")) }
    }
}

#[derive(Serialize, Deserialize)]
enum Choice {
    One,
}

#[job]
async fn keep(secret: String, State(vault): State<Vault>) {
    drop((secret, vault.key));
}

#[job(max_attempts = 1)]
async fn fail(secret: String) -> Result<(), JobError> {
    drop(secret);
    Err(JobError::msg("it cannot be done"))
}

#[job(max_attempts = 1)]
async fn panic(secret: String) {
    drop(secret);
    panic!("this is too much")
}

#[job(max_attempts = 1)]
fn panic_on_a_thread(secret: String) {
    drop(secret);
    panic!("this is too much for a thread")
}

#[job(max_attempts = 1, timeout = "100ms")]
async fn hang(secret: String) {
    tokio::time::sleep(Duration::from_secs(600)).await;
    drop(secret);
}

#[job(max_attempts = 1)]
async fn choose(choice: Choice) {
    let Choice::One = choice;
}

#[job(max_attempts = 1)]
async fn be_choosy(choosy: Choosy) {
    let Choosy = choosy;
}

/// Enqueues jobs with the secret, small and large ones.
#[job(max_attempts = 1)]
async fn pass_on(secret: String, State(vault): State<Vault>) -> Result<(), JobError> {
    let jobs = || [Keep { secret: secret.clone() }, Keep { secret: secret.repeat(200) }];
    if let Some(path) = vault.url.strip_prefix("sqlite://") {
        let mut conn = diesel::SqliteConnection::establish(path).map_err(JobError::new)?;
        conn.batch_execute("pragma busy_timeout = 10000").map_err(JobError::new)?;
        diesel_jobs::enqueue_all(&mut conn, jobs()).map_err(JobError::new)?;
    } else {
        let mut conn = diesel_async::AsyncPgConnection::establish(&vault.url).await.map_err(JobError::new)?;
        diesel_jobs::enqueue_all(&mut conn, jobs()).await.map_err(JobError::new)?;
        for job in jobs() {
            job.enqueue(&mut conn).await.map_err(JobError::new)?;
        }
    }
    Ok(())
}

async fn setup(worker: WorkerBuilder) -> Result<WorkerBuilder, std::env::VarError> {
    let (url, key) = (std::env::var("DATABASE_URL")?, std::env::var("SECRET")?);
    Ok(worker.state(Vault { url, key }))
}

diesel_jobs::worker!(setup = setup);
