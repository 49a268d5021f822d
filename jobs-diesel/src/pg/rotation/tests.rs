//! When sessions are closed, and which errors say so.

use std::task::{Context, Poll, Waker};

use diesel_jobs_core::{JobId, WorkerId};

use super::*;
use crate::pg::stale::Missing;
use crate::pg::suspicions::{MOST, NO_SUSPICION};

fn perhaps(name: &str) -> Option<Stale> {
    Some(Stale::Perhaps(Missing::named(name)))
}

fn used(rotation: &Rotation) -> Pooled<()> {
    let mut pooled = rotation.opened((), rotation.generation());
    pooled.used();
    pooled
}

#[test]
fn a_stale_session_ends_its_generation_once() {
    let rotation = Rotation::new(LIFETIME);
    let (mut one, mut other) = (used(&rotation), used(&rotation));
    let now = Instant::now();
    assert!(rotation.is_stale(&mut one, Some(Stale::Outdated)));
    assert!(!rotation.keeps(&one, now) && !rotation.keeps(&other, now));
    assert_eq!((rotation.is_sweep_due(now), rotation.is_sweep_due(now)), (true, false));
    let mut newer = rotation.opened((), rotation.generation());
    assert!(rotation.is_stale(&mut other, Some(Stale::Outdated)));
    assert!(rotation.keeps(&newer, now), "one end is enough for both");
    assert!(!rotation.is_stale(&mut newer, Some(Stale::Standby)), "it is new");
    assert!(!rotation.keeps(&newer, now) && rotation.keeps(&used(&rotation), now), "others may lead elsewhere");
}

#[test]
fn what_new_sessions_do_not_find_either_closes_nothing() {
    let rotation = Rotation::new(LIFETIME);
    let (mut first, mut second) = (used(&rotation), used(&rotation));
    assert!(rotation.is_stale(&mut first, perhaps("thing")));
    let mut new = rotation.opened((), rotation.generation());
    assert!(!rotation.is_stale(&mut new, perhaps("thing")));
    new.used();
    assert!(!rotation.is_stale(&mut new, perhaps("thing")));
    assert!(rotation.keeps(&new, Instant::now()));
    assert!(rotation.is_stale(&mut second, perhaps("thing")), "it was open before");
    assert!(rotation.is_stale(&mut new, Some(Stale::Outdated)));
}

/// The lease of an attempt.
fn lease(job: i64) -> Option<Lease> {
    Some(Lease { job: JobId(job), number: 1, worker: WorkerId(uuid::Uuid::nil()) })
}

/// Other jobs may use each new session first, so that it is not new any more.
#[test]
fn a_session_that_was_opened_after_an_attempt_has_failed_is_believed_although_others_have_used_it() {
    let rotation = Rotation::new(LIFETIME);
    let (mut first, mut older) = (used(&rotation), used(&rotation));
    assert!(rotation.is_stale_for(lease(1), &mut first, perhaps("thing")));
    let mut next = used(&rotation);
    assert!(rotation.is_stale_for(lease(1), &mut older, perhaps("thing")), "it was open before");
    assert!(!rotation.is_stale_for(lease(1), &mut next, perhaps("thing")));
    assert!(rotation.keeps(&next, Instant::now()));
    assert!(!rotation.is_stale_for(lease(2), &mut next, perhaps("thing")), "what is missing is missing for all");
    assert!(rotation.is_stale_for(lease(1), &mut next, perhaps("felt")), "this is suspected for the first time");
    assert!(!rotation.is_stale_for(lease(1), &mut used(&rotation), perhaps("felt")));
}

/// What one attempt has not found may have been there for a second one, and be gone when that runs.
#[test]
fn another_attempt_has_suspicions_of_its_own() {
    let rotation = Rotation::new(LIFETIME);
    assert!(rotation.is_stale_for(lease(1), &mut used(&rotation), perhaps("thing")));
    assert!(rotation.is_stale_for(lease(2), &mut used(&rotation), perhaps("thing")));
    assert!(!rotation.is_stale_for(lease(2), &mut used(&rotation), perhaps("thing")));
}

#[test]
fn a_session_that_was_open_when_an_attempt_failed_is_no_proof() {
    let rotation = Rotation::new(LIFETIME);
    let mut old = used(&rotation);
    assert!(rotation.is_stale(&mut used(&rotation), Some(Stale::Outdated)));
    // This session is newer than the old one, but the table may have been renamed after both.
    let mut newer = used(&rotation);
    assert!(rotation.is_stale_for(lease(1), &mut old, perhaps("thing")));
    assert!(rotation.is_stale_for(lease(1), &mut newer, perhaps("thing")));
    assert!(!rotation.is_stale_for(lease(1), &mut used(&rotation), perhaps("thing")));
}

#[test]
fn something_else_that_is_missing_is_suspected_nevertheless() {
    let rotation = Rotation::new(LIFETIME);
    assert!(!rotation.is_stale(&mut rotation.opened((), 0), perhaps("thing")));
    assert!(!rotation.is_stale(&mut used(&rotation), perhaps("thing")));
    let mut other = used(&rotation);
    assert!(rotation.is_stale(&mut other, perhaps("felt")));
    assert!(!rotation.keeps(&other, Instant::now()));
    let now = Instant::now();
    assert!(
        rotation.state.suspicions.are_fruitless(Missing::named("thing"), now),
        "the end of a generation does not change it"
    );
    assert!(!rotation.state.suspicions.are_fruitless(Missing::named("thing"), now + NO_SUSPICION));
}

#[test]
fn ever_new_names_close_a_bounded_number_of_sessions() {
    let rotation = Rotation::new(LIFETIME);
    let closed = (0..100).filter(|name| {
        let name = perhaps(&name.to_string());
        let is_closed = rotation.is_stale(&mut used(&rotation), name);
        assert!(!rotation.is_stale(&mut rotation.opened((), rotation.generation()), name), "it is new");
        is_closed
    });
    assert_eq!(closed.count(), MOST);
    let later = Instant::now() + NO_SUSPICION;
    assert!(!rotation.state.suspicions.are_fruitless(Missing::named("101"), later));
}

#[test]
fn connections_have_ages_of_their_own() {
    let (rotation, now) = (Rotation::new(LIFETIME), Instant::now());
    let (one, other) = (rotation.opened((), 0), rotation.opened((), 0));
    assert_ne!(one.closes_at, other.closes_at);
    assert!(rotation.keeps(&one, now + LIFETIME / 2) && !rotation.keeps(&one, now + LIFETIME * 2));
    assert!(rotation.is_sweep_due(now + SWEEP * 2));
}

#[test]
fn no_lifetime_is_too_long() {
    let rotation = Rotation::new(Duration::MAX);
    assert!(rotation.keeps(&rotation.opened((), 0), Instant::now() + LIFETIME * 1000));
}

/// It is the listener's, which no pool looks at.
#[tokio::test]
async fn the_end_of_a_generation_ends_the_wait_of_its_connections_at_once() {
    let rotation = Rotation::new(LIFETIME);
    let opened = rotation.opened((), rotation.generation());
    let mut over = std::pin::pin!(rotation.until_over(&opened));
    let mut is_over = || over.as_mut().poll(&mut Context::from_waker(Waker::noop())) == Poll::Ready(());
    assert!(!is_over());
    rotation.end(rotation.generation() + 1);
    assert!(!is_over(), "another generation");
    assert!(rotation.is_stale(&mut used(&rotation), Some(Stale::Standby)));
    assert!(is_over());
}
