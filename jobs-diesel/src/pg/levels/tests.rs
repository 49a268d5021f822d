use diesel_jobs_core::WorkerId;
use diesel_jobs_core::storage::Wanted;

use super::super::lag::LONGEST_LAG;
use super::level::RESUME_WITHIN;
use super::*;

const QUICK: Duration = Duration::ZERO;
/// The lag, in seconds.
const LAG: i64 = 2;

fn at(seconds: i64) -> DateTime<Utc> {
    DateTime::from_timestamp(1_000_000 + seconds, 0).expect("in range")
}

fn claim(slots: usize) -> Claim {
    Claim::new(WorkerId::generate(), vec![Wanted::new("q", slots)], [])
}

fn position(priority: i16, seconds: i64) -> JobPosition<'static> {
    JobPosition { queue: "q", priority, run_at: at(seconds) }
}

/// The scans of the next claim.
fn scans(levels: &Levels) -> Vec<(i32, i32, Option<DateTime<Utc>>)> {
    levels.plan_from_floors(&claim(1)).scans.into_iter().map(|scan| (scan.hi, scan.lo, scan.floor)).collect()
}

/// The floor of a level.
fn floor(levels: &Levels, priority: i32) -> Option<DateTime<Utc>> {
    scans(levels).into_iter().find(|(hi, lo, _)| hi == lo && *hi == priority).and_then(|(_, _, floor)| floor)
}

/// The state after a rescan at second 0 that quickly found these levels.
fn discovered(priorities: &[i16]) -> Levels {
    let mut levels = Levels::new(LONGEST_LAG, Instant::now());
    let found: Vec<_> = priorities.iter().map(|priority| ("q".to_owned(), *priority)).collect();
    levels.discovered(&found, Vec::new(), at(0), QUICK, Instant::now());
    levels
}

/// Learns from a claim of this many slots that began at the floors and at this second.
fn claimed(levels: &mut Levels, slots: usize, jobs: &[JobPosition<'_>], now: i64) {
    let (claim, plan) = (claim(slots), levels.plan_from_floors(&claim(slots)));
    levels.claimed(&claim, &plan, jobs, at(now), Instant::now());
}

fn rescanned(levels: &mut Levels, found: &[Straggler]) {
    let (claim, now) = (claim(1), Instant::now());
    let plan = levels.plan_of_all(&claim, now).levels();
    levels.rescanned(&claim, &plan, found, now);
}

fn straggler(id: i64, seconds: i64) -> Vec<Straggler> {
    vec![Straggler { queue: "q".to_owned(), priority: 0, run_at: at(seconds), id }]
}

#[test]
fn levels_start_at_their_floor_and_the_gaps_between_them_at_what_is_young() {
    let levels = discovered(&[5, 0]);
    let behind = Some(at(-LAG));
    assert_eq!(scans(&levels), [(ABOVE, 5, None), (5, 5, behind), (5, 0, None), (0, 0, behind), (0, BELOW, None)]);
}

#[test]
fn where_gaps_take_long_only_levels_are_tried_and_the_usual_one() {
    let mut levels = discovered(&[5]);
    levels.discovered(&[], Vec::new(), at(1), CHEAP_DISCOVERY * 2, Instant::now());
    assert_eq!(scans(&levels), [(5, 5, Some(at(-LAG))), (0, 0, None)]);
    let mut levels = discovered(&[5, -5]);
    levels.discovered(&[], Vec::new(), at(1), CHEAP_DISCOVERY * 2, Instant::now());
    assert_eq!(scans(&levels), [(5, 5, Some(at(-LAG))), (0, 0, None), (-5, -5, Some(at(-LAG)))]);
}

#[test]
fn a_claim_that_did_not_get_enough_has_emptied_every_level() {
    let mut levels = discovered(&[5, 0, -5]);
    claimed(&mut levels, 3, &[position(5, 1), position(0, 2)], 100);
    for priority in [5, 0, -5] {
        assert_eq!(floor(&levels, priority), Some(at(100 - LAG)), "{priority}");
    }
}

#[test]
fn a_claim_that_got_enough_has_emptied_its_last_level_up_to_its_last_job() {
    let mut levels = discovered(&[5, 0, -5]);
    claimed(&mut levels, 2, &[position(5, 1), position(0, 2)], 100);
    assert_eq!(floor(&levels, 5), Some(at(100 - LAG)));
    assert_eq!(floor(&levels, 0), Some(at(2)));
    assert_eq!(floor(&levels, -5), Some(at(-LAG)), "it was not looked at");
}

#[test]
fn claims_resume_where_a_full_one_stopped_until_one_is_not_full_or_time_is_up() {
    let mut levels = discovered(&[0]);
    let began = Instant::now();
    let begin = |levels: &Levels, at| levels.plan(&claim(2), at).scans[1].begin();
    let at_clock = at(100);
    let learn = |levels: &mut Levels, jobs: &[JobPosition<'_>], at| {
        let plan = levels.plan(&claim(2), at);
        levels.claimed(&claim(2), &plan, jobs, at_clock, at);
    };
    learn(&mut levels, &[position(0, 98), position(0, 99)], began);
    assert_eq!(begin(&levels, began), Some(at(99)));
    assert_eq!(floor(&levels, 0), Some(at(98)), "the floor stays behind");
    let later = began + RESUME_WITHIN - Duration::from_millis(1);
    learn(&mut levels, &[position(0, 99), position(0, 100)], later);
    assert_eq!(begin(&levels, later), Some(at(100)));
    assert_eq!(begin(&levels, began + RESUME_WITHIN), Some(at(98)), "it is time to begin at the floor");
    learn(&mut levels, &[position(0, 100)], later);
    assert_eq!(begin(&levels, later), Some(at(98)), "there was no more, and what came meanwhile may be older");
    learn(&mut levels, &[position(0, 99), position(0, 99)], later);
    rescanned(&mut levels, &straggler(7, 3));
    assert_eq!(begin(&levels, later), Some(at(3)), "a rescan found one below");
}

#[test]
fn a_queue_that_gave_nothing_beside_others_was_empty_unless_it_is_paused() {
    let mut both = claim(1);
    both.wanted.push(Wanted::new("other", 1));
    let other = JobPosition { queue: "other", priority: 0, run_at: at(50) };
    for (paused, floor_after) in
        [(vec![], 100 - LAG), (vec!["q".to_owned()], -LAG), (vec![ALL_QUEUES.to_owned()], -LAG)]
    {
        let mut levels = discovered(&[0]);
        levels.discovered(&[], paused, at(0), QUICK, Instant::now());
        let plan = levels.plan_from_floors(&both);
        levels.claimed(&both, &plan, &[other], at(100), Instant::now());
        assert_eq!(floor(&levels, 0), Some(at(floor_after)));
    }
}

#[test]
fn a_claim_that_got_as_many_as_it_may_has_not_read_the_queues_after_the_last_one() {
    let other = JobPosition { queue: "other", priority: 0, run_at: at(50) };
    for (place, most, floor_after) in [(1, 1, -LAG), (0, 1, 100 - LAG), (1, 2, 100 - LAG)] {
        let mut levels = discovered(&[0]);
        let mut both = claim(1);
        both.wanted.insert(1 - place, Wanted::new("other", 1));
        both.most = Some(most);
        let plan = levels.plan_from_floors(&both);
        levels.claimed(&both, &plan, &[other], at(100), Instant::now());
        assert_eq!(floor(&levels, 0), Some(at(floor_after)), "q is at place {place}, {most} in all");
    }
    // The queue that got the last job may have more of them.
    let mut levels = discovered(&[5, 0]);
    let few = Claim { most: Some(1), ..claim(3) };
    let plan = levels.plan_from_floors(&few);
    levels.claimed(&few, &plan, &[position(5, 1)], at(100), Instant::now());
    assert_eq!((floor(&levels, 5), floor(&levels, 0)), (Some(at(1)), Some(at(-LAG))));
}

#[test]
fn a_look_that_saw_nothing_due_moves_every_floor() {
    let mut levels = discovered(&[5, 0]);
    let (claim, plan) = (claim(1), levels.plan_from_floors(&claim(1)));
    levels.nothing_due(&claim, &plan, at(100), Vec::new());
    assert_eq!((floor(&levels, 5), floor(&levels, 0)), (Some(at(100 - LAG)), Some(at(100 - LAG))));
    levels.nothing_due(&claim, &plan, at(200), vec!["q".to_owned()]);
    assert_eq!(floor(&levels, 0), Some(at(100 - LAG)), "a paused queue may have jobs");
}

#[test]
fn what_a_rescan_finds_is_where_the_next_claim_starts() {
    let mut levels = discovered(&[0]);
    claimed(&mut levels, 9, &[position(0, 90)], 100);
    rescanned(&mut levels, &straggler(7, 3));
    assert_eq!(floor(&levels, 0), Some(at(3)));
    claimed(&mut levels, 2, &[position(0, 3), position(0, 4)], 101);
    assert_eq!(floor(&levels, 0), Some(at(4)), "the rest follows");
    claimed(&mut levels, 9, &[position(0, 5)], 102);
    assert_eq!(floor(&levels, 0), Some(at(102 - LAG)), "it is empty again");
}

#[test]
fn a_claim_that_began_before_a_rescan_knows_nothing_of_what_that_found() {
    let mut levels = discovered(&[0]);
    claimed(&mut levels, 9, &[position(0, 90)], 100);
    let before = levels.plan_from_floors(&claim(9));
    rescanned(&mut levels, &straggler(7, 3));
    levels.claimed(&claim(9), &before, &[position(0, 100)], at(101), Instant::now());
    levels.nothing_due(&claim(9), &before, at(101), Vec::new());
    assert_eq!(floor(&levels, 0), Some(at(3)));
}

#[test]
fn what_is_found_twice_is_claimed_with_every_row_tried() {
    let mut levels = discovered(&[0]);
    let try_all_rows = |levels: &Levels| levels.plan_from_floors(&claim(1)).scans[1].try_all_rows;
    rescanned(&mut levels, &straggler(7, -100));
    assert!(!try_all_rows(&levels));
    // No claim takes the straggler.
    claimed(&mut levels, 9, &[position(0, 1)], 100);
    rescanned(&mut levels, &straggler(7, -100));
    assert!(try_all_rows(&levels));
    claimed(&mut levels, 9, &[position(0, -100)], 101);
    assert!(!try_all_rows(&levels), "it was taken");
}

#[test]
fn what_was_gone_and_came_back_is_not_found_again() {
    let mut levels = discovered(&[0]);
    rescanned(&mut levels, &straggler(7, -100));
    claimed(&mut levels, 9, &[position(0, -100)], 100);
    rescanned(&mut levels, &[]);
    rescanned(&mut levels, &straggler(7, -100));
    assert!(!levels.plan_from_floors(&claim(1)).scans[1].try_all_rows);
}

#[test]
fn a_clock_that_was_set_back_makes_everything_unknown() {
    let mut levels = discovered(&[0]);
    let kinds = Arc::default();
    assert!(levels.begin(&kinds) && !levels.begin(&kinds));
    claimed(&mut levels, 9, &[position(0, 3)], 3600);
    claimed(&mut levels, 9, &[position(0, 4)], 4);
    assert_eq!(floor(&levels, 0), None);
    assert!(levels.begin(&kinds), "the next claim is preceded by a rescan");
}

#[test]
fn a_kind_that_is_added_makes_the_floors_unknown_and_one_that_is_left_out_does_not() {
    let of = |kinds: &[&str]| -> Arc<[String]> { kinds.iter().map(|kind| (*kind).to_owned()).collect() };
    let (both, one) = (of(&["a", "b"]), of(&["a"]));
    let mut levels = Levels::new(LONGEST_LAG, Instant::now());
    assert!(levels.begin(&both));
    levels.discovered(&[("q".to_owned(), 0)], Vec::new(), at(0), QUICK, Instant::now());
    assert!(!levels.begin(&one), "a kind was paused");
    assert!(floor(&levels, 0).is_some());
    assert!(!levels.begin(&of(&["a"])), "an equal list is no change");
    assert!(levels.begin(&both), "a kind was resumed");
    assert_eq!(floor(&levels, 0), None);

    // The poll began before the kind was resumed, and has passed over its jobs.
    levels.discovered(&[("q".to_owned(), 0)], Vec::new(), at(0), QUICK, Instant::now());
    let (poll, known) = (Claim { kinds: one, ..claim(1) }, floor(&levels, 0));
    let plan = levels.plan_from_floors(&poll);
    levels.nothing_due(&poll, &plan, at(100), Vec::new());
    assert_eq!(floor(&levels, 0), known);
    levels.nothing_due(&Claim { kinds: both, ..poll }, &plan, at(100), Vec::new());
    assert!(floor(&levels, 0) > known);
}

#[test]
fn of_many_levels_a_claim_tries_those_that_were_used_last() {
    let mut levels = discovered(&[]);
    let many: Vec<_> = (0..1000).map(|priority| ("q".to_owned(), priority)).collect();
    levels.discovered(&many, Vec::new(), at(0), CHEAP_DISCOVERY * 2, Instant::now() - FORGET_AFTER / 2);
    claimed(&mut levels, 9, &[position(700, 1)], 2);
    let recent: Vec<_> = (0..60).map(|priority| ("q".to_owned(), 2000 + priority)).collect();
    levels.discovered(&recent, Vec::new(), at(3), CHEAP_DISCOVERY * 2, Instant::now());
    assert!(floor(&levels, 700).is_some() && floor(&levels, 2030).is_some());
    let all = levels.plan_of_all(&claim(1), Instant::now());
    assert_eq!(all.levels().scans.len(), 1060, "a rescan reads all of them");
}
