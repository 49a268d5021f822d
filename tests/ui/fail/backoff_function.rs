use diesel_jobs::job;
use std::time::Duration;

fn by_name(_: &str) -> Duration {
    Duration::ZERO
}

#[job(backoff = by_name)]
fn wrong_signature() {}

#[job(backoff = nowhere)]
fn no_such_function() {}

fn main() {}
