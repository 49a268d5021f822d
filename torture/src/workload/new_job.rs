//! Makes a job from its work.

use diesel_jobs::{IntoNewJob as _, InvalidJob, Job as _, Limit, NewJob, OnDiscard, Sequence};

use super::handlers::{Blocking, Ordinary, Transactional, TransactionalBlocking};
use super::work::{Shape, Work, WorkSequence};

/// Returns the job as the product accepts it.
pub fn new_job(work: &Work) -> Result<NewJob, InvalidJob> {
    let (work, priority, attempts) = (work.clone(), work.priority, work.max_attempts);
    let limit = work.limit.as_ref().map(|limit| Limit::new(&limit.name, limit.most).key(limit.key));
    let sequence = work.sequence.as_ref().map(sequence);
    let job = match work.shape {
        Shape::Async => Ordinary { work }.priority(priority),
        Shape::Blocking => Blocking { work }.priority(priority),
        Shape::Transactional => Transactional { work }.priority(priority),
        Shape::TransactionalBlocking => TransactionalBlocking { work }.priority(priority),
    };
    let job = job.max_attempts(attempts);
    match (limit, sequence) {
        (Some(limit), _) => job.concurrency(limit).into_new_job(),
        (None, Some(sequence)) => job.sequence(sequence).into_new_job(),
        (None, None) => job.into_new_job(),
    }
}

fn sequence(WorkSequence { name, key, skips }: &WorkSequence) -> Sequence {
    Sequence::new(name).key(key).on_discard(if *skips { OnDiscard::Skip } else { OnDiscard::Halt })
}
