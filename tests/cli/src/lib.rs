//! The application whose worker the tests run, with a job for each way in which a job can end.

use std::path::Path;
use std::time::Duration;

use jobs::WorkerBuilder;
use jobs::prelude::*;

/// Longer than any test takes, in ms: a job that waits for so long runs until it is stopped.
pub const HOUR: u64 = 3_600_000;

/// A state that the set-up provides to the handlers.
#[derive(Clone, Debug)]
pub struct Greeting(pub &'static str);

/// Succeeds if the set-up was called.
#[job(queue = "mail")]
pub async fn greet(name: String, State(greeting): State<Greeting>) -> Result<(), std::io::Error> {
    if greeting.0.is_empty() || name.is_empty() {
        return Err(std::io::Error::other("nothing to say"));
    }
    Ok(())
}

/// Fails, and has only one attempt.
#[job(max_attempts = 1)]
pub async fn charge(card: String) -> Result<(), std::io::Error> {
    drop(card);
    Err(std::io::Error::other("the bank is closed"))
}

/// Fails with an error that quotes its secret.
#[job(max_attempts = 1)]
pub async fn log_in(user: String, #[arg(secret)] password: String) -> Result<(), std::io::Error> {
    Err(std::io::Error::other(format!("{user} is refused with {password:?}")))
}

/// Returns a text of this length.
#[job]
pub async fn write(length: usize) -> Result<Option<String>, std::io::Error> {
    Ok((length > 0).then(|| "x".repeat(length)))
}

/// Takes an hour.
#[job(queue = "mail")]
pub async fn send_newsletter(list: String) {
    drop(list);
    tokio::time::sleep(Duration::from_millis(HOUR)).await;
}

/// Blocks a thread of the runtime until this file exists.
#[job]
pub async fn block(file: String) {
    while !Path::new(&file).exists() {
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Waits, and ignores requests to stop.
#[job]
pub async fn wait(millis: u64) {
    tokio::time::sleep(Duration::from_millis(millis)).await;
}

/// Waits until this file exists, and ignores requests to stop.
#[job]
pub async fn wait_for(file: String) {
    exists(&file).await;
}

/// Waits until this file exists. At most five of them run at once.
#[job(concurrency("stripe", limit = 5))]
pub async fn refund(file: String) {
    exists(&file).await;
}

async fn exists(file: &str) {
    while !Path::new(file).exists() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// A step of an order, which fails permanently if it is told to.
#[job(sequence("orders", by(order_id)), max_attempts = 1)]
pub async fn ship(order_id: i64, fails: bool) -> Result<(), std::io::Error> {
    if fails { Err(std::io::Error::other(format!("order {order_id} is lost"))) } else { Ok(()) }
}

/// Reads a file, as the job in the README does.
#[job(max_attempts = 2, backoff = "fixed(1s)")]
pub async fn import_feed(file: String) -> Result<(), std::io::Error> {
    std::fs::read_to_string(file).map(drop)
}

/// Succeeds. There is one for each user.
#[job(unique(by(user_id)))]
pub async fn welcome(user_id: i64) {
    let _ = user_id;
}

/// The set-up of the fixture's worker.
pub async fn setup_worker(worker: WorkerBuilder) -> Result<WorkerBuilder, std::io::Error> {
    let worker = worker.state(Greeting("hello")).queue("mail", 4).serve("default").declare_queue("adhoc");
    // No test waits for five minutes.
    let is_impatient = std::env::var_os("FIXTURE_ENDS_AT_FIRST_REFUSAL").is_some();
    Ok(if is_impatient { worker.refused_for(Duration::ZERO) } else { worker })
}

/// A set-up that names one of the two queues.
pub async fn forgetful_setup(worker: WorkerBuilder) -> Result<WorkerBuilder, std::io::Error> {
    Ok(worker.state(Greeting("hello")).queue("mail", 4))
}

/// A set-up that fails.
pub async fn broken_setup(_: WorkerBuilder) -> Result<WorkerBuilder, std::io::Error> {
    Err(std::io::Error::other("the mail server's certificate is missing"))
}
