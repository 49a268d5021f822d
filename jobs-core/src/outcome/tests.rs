use super::*;
use crate::retry::Backoff;

fn options() -> JobOptions {
    JobOptions::new().backoff(Backoff::Fixed { wait: Duration::from_secs(9), jitter: Duration::ZERO })
}

fn decided(attempt: u16, handled: Handled) -> Transition {
    let options = options();
    decide(
        Attempt { attempt, max_attempts: 3, options: &options, kept: Retention::default().kept(options.retain) },
        handled,
        0.5,
    )
}

#[test]
fn an_error_waits_for_the_backoff_until_attempts_are_used_up() {
    for attempt in 1..3 {
        let Transition::Retry { delay, failure } = decided(attempt, Err(JobError::msg("x"))) else { panic!() };
        assert_eq!((delay, failure.message.as_str()), (Duration::from_secs(9), "x"));
    }
    assert!(matches!(decided(3, Err(JobError::msg("x"))), Transition::Discard { .. }));
}

#[test]
fn a_fatal_error_discards_at_once_and_retry_in_overrides_the_backoff() {
    assert!(matches!(decided(1, Err(JobError::msg("x").fatal())), Transition::Discard { .. }));
    let in_a_minute = JobError::msg("x").retry_in(Duration::from_secs(60));
    assert!(
        matches!(decided(1, Err(in_a_minute)), Transition::Retry { delay, .. } if delay == Duration::from_secs(60))
    );
}

#[test]
fn retry_in_does_not_grant_further_attempts() {
    let in_a_minute = JobError::msg("x").retry_in(Duration::from_secs(60));
    assert!(matches!(decided(3, Err(in_a_minute)), Transition::Discard { .. }));
}

#[test]
fn undecodable_arguments_have_few_attempts_that_outlast_a_deployment() {
    let undecodable = || JobError::of_kind(FailureKind::Undecodable, anyhow::Error::msg("x"));
    let decided = |attempt, max_attempts| {
        let options = options();
        let attempt =
            Attempt { attempt, max_attempts, options: &options, kept: Retention::default().kept(options.retain) };
        decide(attempt, Err(undecodable()), 0.0)
    };
    let mut waited = Duration::ZERO;
    for attempt in 1..5 {
        let Transition::Retry { delay, .. } = decided(attempt, 25) else { panic!("attempt {attempt}") };
        waited += delay;
    }
    assert!(waited > Duration::from_secs(3000), "{waited:?}");
    assert!(matches!(decided(5, 25), Transition::Discard { failure, .. } if failure.kind == FailureKind::Undecodable));
    assert!(matches!(decided(2, 2), Transition::Discard { .. }), "a job's own limit holds, too");
}

#[test]
fn an_output_is_stored_if_there_is_one_and_its_job_is_kept() {
    let stored = |value: serde_json::Value, retain| {
        let options = options().retain(retain);
        let attempt =
            Attempt { attempt: 1, max_attempts: 3, options: &options, kept: Retention::default().kept(options.retain) };
        let transition = decide(attempt, Ok(Outcome::CompleteWith(Output::new(&value))), 0.5);
        transition.output().and_then(|output| output.read().unwrap())
    };
    let value = serde_json::json!({ "pages": 7 });
    assert_eq!(stored(value.clone(), Retain::Forever), Some(value.clone()));
    assert_eq!(stored(value, Retain::None), None);
    assert_eq!(stored(serde_json::Value::Null, Retain::Forever), None);
}

#[test]
fn snooze_and_cancel_pass_through_at_any_attempt() {
    assert_eq!(decided(3, Ok(Outcome::Snooze(Duration::ZERO))), Transition::Snooze(Duration::ZERO));
    assert!(
        matches!(decided(1, Ok(Outcome::Cancel("gone".into()))), Transition::Cancel { reason, .. } if reason.message == "gone")
    );
}
