//! Lives in which a storage once was not as the model is.

use jobs_core::Keep;

use super::step::{Ask, End, New, Pick, Step, When, Who};
use super::world::play;
use crate::fixture::Fixture;

/// A job that may be attempted once.
const JOB: New = New { queue: "default", kind: "a", priority: 0, when: When::Now, max_attempts: 1, large: false };

/// A claim of one job.
fn claim() -> Step {
    let wanted = vec![("default", 1, 0)];
    Step::Claim(Ask { who: Who::At(0), wanted, kinds: &["a"], max_crashes: 3, insist: true })
}

fn finish(end: End) -> Step {
    Step::Finish(vec![(Pick::Standing(0), end)])
}

async fn lives<F: Fixture>(f: &F, steps: &[Step]) {
    let mut client = f.client().await;
    play(f, &mut *client, steps).await.unwrap_or_else(|divergence| panic!("{divergence}"));
}

/// Cancelled before its first attempt, it had a failure of attempt 0, which was not looked for.
pub(crate) async fn a_failure_before_the_first_attempt_goes_with_its_job<F: Fixture>(f: F) {
    let steps = [Step::Enqueue(JOB), Step::Cancel(0), Step::Retry(0), claim(), finish(End::Complete(Keep::Nothing))];
    lives(&f, &steps).await;
}

pub(crate) async fn a_discarded_job_that_is_not_kept_leaves_no_failure<F: Fixture>(f: F) {
    for end in [End::Discard(Keep::Nothing), End::Cancel(Keep::Nothing)] {
        lives(&f, &[Step::Enqueue(JOB), claim(), finish(end)]).await;
    }
}
