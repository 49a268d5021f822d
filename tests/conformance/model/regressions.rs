//! Lives in which a storage once differed from the model.

use diesel_jobs_core::Keep;

use super::step::{Ask, End, Flow, New, Pick, Step, When, Who};
use super::world::play;
use crate::fixture::Fixture;

/// A job with one attempt.
const JOB: New = New {
    queue: "default",
    kind: "a",
    priority: 0,
    when: When::Now,
    max_attempts: 1,
    large: false,
    flow: Flow::Free,
    unique: None,
};

/// A claim of one job.
fn claim() -> Step {
    let wanted = vec![("default", 1, 0)];
    Step::Claim(Ask { who: Who::At(0), wanted, kinds: &["a"], max_crashes: 3, bypass_limit: true })
}

fn finish(end: End) -> Step {
    Step::Finish(vec![(Pick::Standing(0), end)])
}

async fn lives<F: Fixture>(f: &F, steps: &[Step]) {
    let mut client = f.client().await;
    play(f, &mut *client, steps).await.unwrap_or_else(|divergence| panic!("{divergence}"));
}

/// A job that was cancelled before its first attempt had a failure of attempt 0. The deletion did not search for that.
pub(crate) async fn a_failure_before_the_first_attempt_goes_with_its_job<F: Fixture>(f: F) {
    let steps = [Step::Enqueue(JOB), Step::Cancel(0), Step::Retry(0), claim(), finish(End::Complete(Keep::Nothing))];
    lives(&f, &steps).await;
}

pub(crate) async fn a_discarded_job_that_is_not_kept_leaves_no_failure<F: Fixture>(f: F) {
    for end in [End::Discard(Keep::Nothing), End::Cancel(Keep::Nothing)] {
        lives(&f, &[Step::Enqueue(JOB), claim(), finish(end)]).await;
    }
}

/// A full claim skipped a job of a kind that it did not want, and the next claim began behind that job.
pub(crate) async fn a_claim_for_more_kinds_begins_at_the_first_job<F: Fixture>(f: F) {
    let claim = |kinds: &'static [&'static str]| {
        Step::Claim(Ask {
            who: Who::At(0),
            wanted: vec![("default", 0, 1)],
            kinds,
            max_crashes: 1,
            bypass_limit: false,
        })
    };
    let jobs = vec![JOB, New { kind: "b", max_attempts: 2, ..JOB }];
    lives(&f, &[Step::EnqueueAll(jobs), claim(&["b"]), finish(End::Release), claim(&["a", "b"])]).await;
}
