//! Makes a job from its work.

use std::time::Duration;

use diesel_jobs::enqueue::{IntoNewJob as _, InvalidJob};
use diesel_jobs::rules::{Limit, OnDiscard, Rate, Sequence};
use diesel_jobs::{Job as _, NewJob};

use super::batched::{Batched, BatchedBlocking};
use super::handlers::{Blocking, Ordinary, Transactional, TransactionalBlocking};
use super::work::{BURST, RATE, Shape, Work, WorkLimit, WorkSequence};

/// Returns the job as the product accepts it.
pub fn new_job(work: &Work) -> Result<NewJob, InvalidJob> {
    let (work, priority, attempts) = (work.clone(), work.priority, work.max_attempts);
    let limits: Vec<Limit> = work.limit.iter().chain(&work.second).map(limit).collect();
    let sequence = work.sequence.as_ref().map(sequence);
    let rate = work.rate.map(|key| Rate::new("paced", RATE, Duration::from_secs(1)).burst(BURST).key(key));
    let job = match work.shape {
        Shape::Async => Ordinary { work }.priority(priority),
        Shape::Blocking => Blocking { work }.priority(priority),
        Shape::Transactional if work.batched => Batched { work }.priority(priority),
        Shape::TransactionalBlocking if work.batched => BatchedBlocking { work }.priority(priority),
        Shape::Transactional => Transactional { work }.priority(priority),
        Shape::TransactionalBlocking => TransactionalBlocking { work }.priority(priority),
    };
    let mut job = job.max_attempts(attempts);
    for limit in limits {
        job = job.concurrency(limit);
    }
    if let Some(rate) = rate {
        job = job.rate(rate);
    }
    match sequence {
        Some(sequence) => job.sequence(sequence).into_new_job(),
        None => job.into_new_job(),
    }
}

fn limit(WorkLimit { name, key, most, on_full, tenant }: &WorkLimit) -> Limit {
    let limit = Limit::new(name, *most).key(key).on_full(*on_full);
    match tenant {
        Some(tenant) => limit.fair_by(tenant),
        None => limit,
    }
}

fn sequence(WorkSequence { name, key, skips }: &WorkSequence) -> Sequence {
    Sequence::new(name).key(key).on_discard(if *skips { OnDiscard::Skip } else { OnDiscard::Halt })
}
