//! The generator of the sequences of steps. There are few queues, kinds and workers, so that steps affect the same
//! ones. Delays are as long as a few steps of time, so that these steps matter. All delays are multiples of twenty
//! minutes, and leases last ninety. So the result never depends on how long a statement takes.

use diesel_jobs_core::{Keep, OnFull};
use proptest::collection::vec;
use proptest::option::weighted;
use proptest::prelude::*;
use proptest::sample::{Index, select, subsequence};

use super::step::{Ask, End, Flow, New, Pick, Step, User, When, Who, minutes};

/// The maximum number of phrases in one model.
const PHRASES: usize = 30;

/// Generates the sequences. They begin with some jobs, because little can happen without jobs.
pub(super) fn lives() -> impl Strategy<Value = Vec<Step>> {
    (vec(new(), 0..8), vec(phrase(), 1..=PHRASES)).prop_map(|(jobs, phrases)| {
        let first = (!jobs.is_empty()).then_some(Step::EnqueueAll(jobs));
        first.into_iter().chain(phrases.into_iter().flatten()).collect()
    })
}

/// Generates any step, or a few steps that belong together and seldom follow one another by chance.
fn phrase() -> impl Strategy<Value = Vec<Step>> {
    prop_oneof![
        70 => step().prop_map(|step| vec![step]),
        8 => (ask(), rescue()).prop_map(|(ask, rescue)| vec![Step::Claim(ask.clone()), Step::Die(ask.who), rescue]),
        4 => (ask(), rescue()).prop_map(|(ask, rescue)| vec![Step::Claim(ask.clone()), Step::Drain(ask.who), Step::Die(ask.who), rescue]),
        4 => (ask(), rescue()).prop_map(|(ask, rescue)| vec![Step::ClaimQuarantined(ask.clone()), Step::Die(ask.who), rescue]),
        2 => (ask(), rescue()).prop_map(|(ask, rescue)| vec![Step::Claim(ask.clone()), Step::Leave(ask.who), rescue]),
        4 => (ask(), finish()).prop_map(|(ask, finish)| vec![Step::ClaimQuarantined(ask), finish]),
        8 => (ask(), finish()).prop_map(|(ask, finish)| vec![Step::Claim(ask), finish]),
        4 => (pass(), ask()).prop_map(|(pass, ask)| vec![pass, Step::Claim(ask)]),
        8 => ask().prop_map(|ask| vec![Step::Admit, Step::Claim(ask)]),
        8 => (ask(), finish()).prop_map(|(ask, finish)| vec![Step::Admit, Step::Claim(ask), finish, Step::Admit]),
        6 => (vec(new(), 1..4), ask()).prop_map(|(new, ask)| vec![Step::EndFull, Step::Claim(ask), Step::EnqueueAll(new), Step::EndFull]),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => new().prop_map(Step::Enqueue),
        5 => vec(new(), 0..6).prop_map(Step::EnqueueAll),
        2 => vec(new(), 1..4).prop_map(Step::RolledBack),
        6 => Just(Step::Admit),
        5 => Just(Step::EndFull),
        12 => ask().prop_map(Step::Claim),
        3 => ask().prop_map(Step::ClaimQuarantined),
        10 => finish(),
        6 => (batch(), 0..2_usize, proptest::bool::weighted(0.8)).prop_map(|(batch, conn, works)| Step::Transact(batch, conn, works)),
        2 => (pick(), any::<bool>()).prop_map(|(pick, commit)| Step::CompleteIn(pick, commit)),
        3 => pass(),
        2 => who().prop_map(Step::Die),
        1 => who().prop_map(Step::Leave),
        1 => who().prop_map(Step::Register),
        2 => who().prop_map(Step::Beat),
        1 => who().prop_map(Step::Drain),
        3 => rescue(),
        3 => any_of_many().prop_map(Step::Cancel),
        4 => any_of_many().prop_map(Step::Retry),
        2 => (queue(), any::<bool>()).prop_map(|(queue, paused)| Step::Pause(queue, paused)),
        1 => Just(Step::Freeze),
        3 => Just(Step::Thaw),
        1 => Just(Step::CancelAll),
        5 => select(&[0, 1, 2, 100, 100][..]).prop_map(Step::Prune),
        3 => Just(Step::Compare),
    ]
}

fn finish() -> impl Strategy<Value = Step> {
    prop_oneof![
        1 => vec((pick(), end()), 1..4).prop_map(Step::Finish),
        1 => (vec((pick(), end()), 1..4), proptest::option::of(ask())).prop_map(|(batch, next)| Step::FinishAndPassOn(batch, next)),
    ]
}

/// One job, a batch whose leases all stand, or any leases.
fn batch() -> impl Strategy<Value = Vec<(Pick, End)>> {
    prop_oneof![
        2 => vec((pick(), end()), 1),
        2 => vec((any_of_many().prop_map(Pick::Standing), end()), 2..5),
        1 => vec((pick(), end()), 2..4),
    ]
}

fn rescue() -> impl Strategy<Value = Step> {
    (1..5_u16, any::<bool>()).prop_map(|(max_crashes, orphans)| Step::Rescue(max_crashes, orphans))
}

/// The last of these times is longer than any retention.
fn pass() -> impl Strategy<Value = Step> {
    select(&[20, 20, 60, 60, 120, 64_800][..]).prop_map(Step::Pass)
}

fn new() -> impl Strategy<Value = New> {
    let kind = select(&["a", "a", "b", "c"][..]);
    let priority = select(&[0, 0, 0, 0, 0, 5, -5, i16::MAX, i16::MIN][..]);
    let when = prop_oneof![
        5 => Just(When::Now),
        3 => delay().prop_map(When::In),
        1 => select(&[-60, 0, 60][..]).prop_map(When::At),
    ];
    let large = proptest::bool::weighted(0.1);
    let unique = weighted(0.2, select(User::ALL.to_vec()));
    (queue(), kind, priority, when, 1..4_u16, large, flow(), unique).prop_map(
        |(queue, kind, priority, when, max_attempts, large, flow, unique)| New {
            // A pass takes paused jobs out of the turns of their tenants, and leaves some turns to the next pass. The
            // model has no passes. So either all jobs with tenants are paused, or none.
            queue: if matches!(flow, Flow::Fair(..)) { "default" } else { queue },
            kind,
            priority,
            when,
            max_attempts,
            large,
            flow,
            unique,
        },
    )
}

/// A key always has the same limit, because the first held job of a key decides.
fn flow() -> impl Strategy<Value = Flow> {
    prop_oneof![
        6 => Just(Flow::Free),
        2 => select(vec![Flow::Limit("x", 1), Flow::Limit("y", 2)]),
        2 => select(vec![Flow::Full("x", 1, OnFull::Discard), Flow::Full("x", 1, OnFull::CancelOldest), Flow::Full("y", 2, OnFull::CancelOldest)]),
        2 => select(&["p", "q", "r"][..]).prop_map(|tenant| Flow::Fair("x", 2, tenant)),
        3 => (select(&["x", "y"][..]), any::<bool>()).prop_map(|(key, halts)| Flow::Sequence(key, halts)),
    ]
}

fn ask() -> impl Strategy<Value = Ask> {
    let all = || Just(vec!["default", "mail"]);
    let queues =
        prop_oneof![3 => Just(vec!["default"]), 3 => all(), 1 => subsequence(vec!["default", "mail", "none"], 0..=3)];
    let room = (select(&[0, 1, 1, 2, 3, 5][..]), select(&[0, 0, 1, 3][..]));
    let wanted = queues.prop_flat_map(move |queues| {
        let rooms = vec(room.clone(), queues.len());
        rooms.prop_map(move |rooms| {
            queues.iter().zip(rooms).map(|(queue, (slots, prefetch))| (*queue, slots, prefetch)).collect::<Vec<_>>()
        })
    });
    let kinds = select(vec![
        &["a", "b"][..],
        &["a", "b"],
        &["a", "b"],
        &["a", "b"],
        &["a", "b"],
        &["b"],
        &["c"],
        &["a", "b", "c"],
        &[],
    ]);
    (who(), wanted, kinds, 1..5_u16, any::<bool>()).prop_map(|(who, wanted, kinds, max_crashes, bypass_limit)| Ask {
        who,
        wanted,
        kinds,
        max_crashes,
        bypass_limit,
    })
}

fn pick() -> impl Strategy<Value = Pick> {
    prop_oneof![
        10 => any_of_many().prop_map(Pick::Standing),
        4 => any_of_many().prop_map(Pick::Granted),
        2 => (any_of_many(), select(&[-1, 1][..])).prop_map(|(lease, by)| Pick::Renumbered(lease, by)),
        2 => (any_of_many(), who()).prop_map(|(lease, who)| Pick::Stolen(lease, who)),
        1 => any_of_many().prop_map(Pick::Misplaced),
    ]
}

fn end() -> impl Strategy<Value = End> {
    prop_oneof![
        4 => keep().prop_map(End::Complete),
        4 => delay().prop_map(End::Retry),
        3 => delay().prop_map(End::Snooze),
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

/// Generates a position in a list whose length is not known yet. Small positions are more likely to occur twice.
fn any_of_many() -> impl Strategy<Value = usize> {
    prop_oneof![3 => 0..4_usize, 1 => any::<Index>().prop_map(|index| index.index(1000))]
}
