use super::*;
use crate::failure::MAX_FAILURE_BYTES;
use crate::{InvalidDiscardRule, InvalidJob, InvalidSchedule, RegistryError};

#[test]
fn a_failure_is_storable_whatever_the_message() {
    let failure = Failure::new(FailureKind::Error, &"é\0".repeat(10_000));
    assert!(failure.message.len() <= MAX_FAILURE_BYTES);
    assert!(!failure.message.contains('\0'));
}

#[test]
fn a_job_error_keeps_its_word_through_anyhow() {
    let inside: anyhow::Error = JobError::msg("x").fatal().into();
    assert!(JobError::new(inside).is_fatal());
}

#[test]
fn a_job_error_keeps_its_word_in_a_box() {
    let inside: BoxError = JobError::msg("x").fatal().into();
    assert!(JobError::new(inside).is_fatal());
}

#[test]
fn a_boxed_error_is_stored_with_its_causes() {
    let error: BoxError = anyhow::Error::msg("connection refused").context("could not reach the mailer").into();
    assert_eq!(JobError::new(error).to_failure().message, "could not reach the mailer: connection refused");
    let text: Result<(), BoxError> = Err("no such card".into());
    let error = text.fatal().unwrap_err();
    assert!(error.is_fatal());
    assert_eq!(error.to_failure().message, "no such card");
}

#[test]
fn causes_are_part_of_the_stored_message() {
    let error = anyhow::Error::msg("connection refused").context("could not reach the mailer");
    assert_eq!(JobError::new(error).to_failure().message, "could not reach the mailer: connection refused");
}

#[test]
fn a_chain_of_causes_contains_the_cause_once() {
    let (kind, location) = ("charge", "src/jobs.rs:1");
    let problem = <serde_json::Error as serde::ser::Error>::custom("it broke");
    let rule = InvalidDiscardRule::NoArgument("it broke".to_owned()).into();
    let errors: [&dyn std::error::Error; 3] = [
        &InvalidJob::Encode { kind: kind.to_owned(), problem },
        &RegistryError::OnDiscarded { kind, location, problem: rule },
        &RegistryError::Schedule { kind, location, problem: InvalidSchedule::NeverFires("it broke".to_owned()) },
    ];
    for error in errors {
        let causes = std::iter::successors(Some(error), |error| error.source());
        let chain = causes.map(ToString::to_string).collect::<Vec<_>>().join(": ");
        assert_eq!(chain.matches("it broke").count(), 1, "{chain}");
    }
}
