//! The backtrace of a failure has the application's functions between the error and the handler. An error that is only
//! converted after the handler has returned comes from none of them, and has no backtrace. All tests run with
//! RUST_BACKTRACE.

use std::error::Error;
use std::io;

use diesel_jobs::prelude::*;
use diesel_jobs::worker::Registry;
use diesel_jobs::{JobBuilder, JobId};
use support::{Db, registry};

fn send() -> io::Result<()> {
    Err(io::Error::other("no mail"))
}

#[job(max_attempts = 1)]
async fn returns_it() -> io::Result<()> {
    send()
}

#[job(max_attempts = 1)]
fn returns_it_on_a_thread(number: i64) -> Result<Option<i64>, io::Error> {
    send().map(|()| Some(number))
}

#[job(max_attempts = 1)]
async fn returns_it_in_a_box() -> Result<(), Box<dyn Error + Send + Sync>> {
    tokio::task::yield_now().await;
    Ok(send()?)
}

#[job(max_attempts = 1)]
async fn converts_it() -> Result<(), JobError> {
    tokio::task::yield_now().await;
    send().fatal()
}

#[job(max_attempts = 1)]
fn converts_it_on_a_thread() -> Result<(), JobError> {
    send().map_err(JobError::new)
}

#[job(max_attempts = 1)]
async fn converts_it_with_anyhow() -> anyhow::Result<()> {
    Ok(send()?)
}

#[job(max_attempts = 1)]
fn converts_it_in_a_box() -> Result<(), Box<dyn Error + Send + Sync>> {
    Err(send().map_err(JobError::new).unwrap_err().into())
}

async fn backtrace_of(db: &Db, registry: Registry, job: impl Into<JobBuilder>) -> Option<String> {
    let id: JobId = db.enqueue(job.into()).await;
    db.work(registry).await;
    let mut failures = db.failures(id).await;
    assert_eq!(failures.len(), 1, "{failures:?}");
    assert!(failures[0].message.contains("no mail"), "{failures:?}");
    failures.remove(0).backtrace
}

async fn an_error_that_the_handler_returns_has_none(db: Db) {
    for backtrace in [
        backtrace_of(&db, registry![ReturnsIt], ReturnsIt).await,
        backtrace_of(&db, registry![ReturnsItOnAThread], ReturnsItOnAThread { number: 7 }).await,
        backtrace_of(&db, registry![ReturnsItInABox], ReturnsItInABox).await,
    ] {
        assert_eq!(backtrace, None);
    }
}

async fn an_error_that_is_converted_in_the_handler_has_its_functions(db: Db) {
    for backtrace in [
        backtrace_of(&db, registry![ConvertsIt], ConvertsIt).await,
        backtrace_of(&db, registry![ConvertsItOnAThread], ConvertsItOnAThread).await,
        backtrace_of(&db, registry![ConvertsItWithAnyhow], ConvertsItWithAnyhow).await,
        backtrace_of(&db, registry![ConvertsItInABox], ConvertsItInABox).await,
    ] {
        let backtrace = backtrace.unwrap_or_default();
        // The place of the first function.
        assert!(backtrace.lines().nth(1).is_some_and(|place| place.contains("backtraces.rs:")), "{backtrace}");
    }
}

support::on_each_database! {
    an_error_that_the_handler_returns_has_none,
    an_error_that_is_converted_in_the_handler_has_its_functions,
}
