//! Which sequences of steps are tried. Few queues, kinds and workers, so that steps meet; delays of a few steps of time, so
//! that it matters which passed. All of them are multiples of twenty minutes, and leases last ninety: nothing ever depends
//! on the moment a statement takes.

use jobs_core::Keep;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select, subsequence};

use super::step::{Ask, End, New, Pick, Step, When, Who, minutes};

/// The most steps of one life.
const STEPS: usize = 50;

/// The sequences.
pub(super) fn lives() -> impl Strategy<Value = Vec<Step>> {
    vec(step(), 1..=STEPS)
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => new().prop_map(Step::Enqueue),
        4 => vec(new(), 0..6).prop_map(Step::EnqueueAll),
        16 => ask().prop_map(Step::Claim),
        4 => ask().prop_map(Step::ClaimSuspect),
        14 => vec((pick(), end()), 1..4).prop_map(Step::Finish),
        3 => (pick(), 0..2_usize, proptest::option::weighted(0.8, end())).prop_map(|(p, c, e)| Step::Transact(p, c, e)),
        2 => (pick(), any::<bool>()).prop_map(|(pick, commit)| Step::CompleteIn(pick, commit)),
        5 => select(&[20, 60, 60, 120, 64_800][..]).prop_map(Step::Pass),
        5 => who().prop_map(Step::Die),
        1 => who().prop_map(Step::Leave),
        1 => who().prop_map(Step::Register),
        2 => who().prop_map(Step::Beat),
        6 => (1..5_u16, any::<bool>()).prop_map(|(max_crashes, orphans)| Step::Rescue(max_crashes, orphans)),
        3 => any_of_many().prop_map(Step::Cancel),
        4 => any_of_many().prop_map(Step::Retry),
        2 => (queue(), any::<bool>()).prop_map(|(queue, paused)| Step::Pause(queue, paused)),
        3 => select(&[0, 1, 2, 100][..]).prop_map(Step::Prune),
        3 => Just(Step::Look),
    ]
}

fn new() -> impl Strategy<Value = New> {
    let kind = select(&["a", "a", "b", "c"][..]);
    let priority = select(&[0, 0, 0, 5, -5, i16::MAX, i16::MIN][..]);
    let when = prop_oneof![
        5 => Just(When::Now),
        2 => delay().prop_map(When::In),
        1 => select(&[-60, 0, 60][..]).prop_map(When::At),
    ];
    (queue(), kind, priority, when, 1..4_u16, proptest::bool::weighted(0.1)).prop_map(
        |(queue, kind, priority, when, max_attempts, large)| New { queue, kind, priority, when, max_attempts, large },
    )
}

fn ask() -> impl Strategy<Value = Ask> {
    let all = || Just(vec!["default", "mail"]);
    let queues =
        prop_oneof![3 => Just(vec!["default"]), 3 => all(), 1 => subsequence(vec!["default", "mail", "none"], 0..=3)];
    let room = (select(&[0, 1, 1, 2, 5][..]), select(&[0, 0, 1, 3][..]));
    let wanted = queues.prop_flat_map(move |queues| {
        let rooms = vec(room.clone(), queues.len());
        rooms.prop_map(move |rooms| {
            queues.iter().zip(rooms).map(|(queue, (slots, ahead))| (*queue, slots, ahead)).collect::<Vec<_>>()
        })
    });
    let kinds = select(vec![&["a", "b"][..], &["a", "b"], &["a", "b"], &["b"], &["c"], &["a", "b", "c"], &[]]);
    (who(), wanted, kinds, 1..5_u16, any::<bool>()).prop_map(|(who, wanted, kinds, max_crashes, insist)| Ask {
        who,
        wanted,
        kinds,
        max_crashes,
        insist,
    })
}

fn pick() -> impl Strategy<Value = Pick> {
    prop_oneof![
        12 => any_of_many().prop_map(Pick::Standing),
        4 => any_of_many().prop_map(Pick::Granted),
        1 => (any_of_many(), select(&[-1, 1][..])).prop_map(|(lease, by)| Pick::Renumbered(lease, by)),
        1 => (any_of_many(), who()).prop_map(|(lease, who)| Pick::Stolen(lease, who)),
        1 => any_of_many().prop_map(Pick::Misplaced),
    ]
}

fn end() -> impl Strategy<Value = End> {
    prop_oneof![
        4 => keep().prop_map(End::Complete),
        4 => delay().prop_map(End::Retry),
        2 => delay().prop_map(End::Snooze),
        2 => Just(End::Release),
        1 => keep().prop_map(End::Cancel),
        2 => keep().prop_map(End::Discard),
    ]
}

fn keep() -> impl Strategy<Value = Keep> {
    let times = [0, 20, 120].map(|time| Keep::For(minutes(time)));
    prop_oneof![2 => Just(Keep::Nothing), 3 => select(times.to_vec()), 1 => Just(Keep::Forever)]
}

fn who() -> impl Strategy<Value = Who> {
    prop_oneof![12 => (0..2_usize).prop_map(Who::At), 2 => Just(Who::Former), 1 => Just(Who::Stranger)]
}

fn queue() -> impl Strategy<Value = &'static str> {
    select(&["default", "default", "mail"][..])
}

fn delay() -> impl Strategy<Value = u64> {
    select(&[0, 0, 20, 60, 120][..])
}

/// A place in a list whose length nobody knows yet; small ones are more likely to be the same twice.
fn any_of_many() -> impl Strategy<Value = usize> {
    prop_oneof![3 => 0..4_usize, 1 => any::<Index>().prop_map(|index| index.index(1000))]
}
