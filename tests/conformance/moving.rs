//! Large arguments exist in every state of their job, and are deleted with it.

use std::time::Duration;

use diesel_jobs_core::{ClaimedJob, Finish, JobState, Keep, NewJob, Transition};

use crate::bench::*;
use crate::fixture::Fixture;

/// A job with arguments of 64 KiB that cannot be compressed much.
fn large() -> NewJob {
    let mut seed = 0x9e37_79b9_u32;
    let mut next = || {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        char::from(b'!' + u8::try_from(seed >> 24).unwrap() % 90)
    };
    let text: String = (0..64 * 1024).map(|_| next()).filter(|c| !['"', '\\'].contains(c)).collect();
    NewJob::raw("a", format!(r#"{{"text":"{text}"}}"#))
}

fn text(job: &ClaimedJob) -> &str {
    std::str::from_utf8(&job.args).unwrap()
}

pub(crate) async fn large_arguments_come_back_in_every_state<F: Fixture>(f: F) {
    let db = f.database();
    let worker = worker(db).await;
    let given = large();
    let one = enqueue(&f, given.clone()).await;
    let many = enqueue_all(&f, vec![given.clone(), job(), given.clone()]).await;
    assert_eq!(record(db, one).await.args, given.args);
    let jobs = claim(db, worker, 4).await;
    assert_eq!(ids(&jobs), [&[one], &*many].concat());
    for (place, job) in jobs.iter().enumerate() {
        let args = if place == 2 { "{}" } else { given.args.as_str() };
        assert_eq!(text(job), args);
        assert_eq!(record(db, job.lease.job).await.args, args);
    }
    assert!(finish(db, &jobs[0], Transition::Release).await);
    let again = claim(db, worker, 1).await.remove(0);
    assert_eq!((again.lease.job, text(&again)), (one, given.args.as_str()));
    assert!(finish(db, &again, discard()).await);
    assert_eq!(record(db, one).await.args, given.args);
    assert!(db.operator.retry(one).await.is_ok());
    let again = claim(db, worker, 1).await.remove(0);
    assert_eq!((again.lease.job, text(&again)), (one, given.args.as_str()));
}

pub(crate) async fn large_arguments_go_with_their_job<F: Fixture>(f: F) {
    let db = f.database();
    let worker = worker(db).await;
    enqueue_all(&f, vec![large(); 4]).await;
    let jobs = claim(db, worker, 4).await;
    let keeps = [Keep::Nothing, Keep::For(Duration::ZERO), Keep::For(HOUR), Keep::Forever];
    let finish = |(job, keep): (&ClaimedJob, Keep)| Finish::new(job, Transition::Complete(keep));
    let batch: Vec<Finish> = jobs.iter().zip(keeps).map(finish).collect();
    assert_eq!(db.storage.finish_all(&batch).await.unwrap().len(), 4);
    let mut client = f.client().await;
    let payloads = F::payloads();
    assert_eq!(client.number(payloads).await, 3);
    tokio::time::sleep(Duration::from_millis(5)).await;
    assert_eq!(db.storage.prune(10).await.unwrap(), 1);
    assert_eq!(client.number(payloads).await, 2);
    for job in &jobs[2..] {
        assert_eq!(state(db, job.lease.job).await, JobState::Completed);
    }
}
