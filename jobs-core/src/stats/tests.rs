use super::*;

fn queue(name: &str, available: i64) -> QueueCount {
    let to = |jobs| CountedTo { jobs, limit: 10 };
    QueueCount {
        queue: name.into(),
        available: to(available),
        later: to(2),
        oldest_wait_seconds: Some(1.0),
        oldest: Some(JobId(7)),
    }
}

fn held(queues: &[(&str, i64, i64)], is_whole: bool) -> HeldCounts {
    let queues = queues.iter().map(|(queue, due, later)| ((*queue).to_owned(), *due, *later)).collect();
    HeldCounts { queues, is_whole }
}

fn sampled(available: i64) -> Sample {
    let kinds = vec![KindStats { queue: "q".into(), kind: "k".into(), available, ..KindStats::default() }];
    Sample { at: Some(Utc::now()), age_seconds: Some(7.0), took_seconds: 1.0, resting: None, kinds }
}

#[test]
fn a_depth_is_exact_below_the_limit_and_an_estimate_from_it_on() {
    let depth = |counted, sample| {
        Stats::new(vec![queue("q", counted)], &held(&[], true), &[], None, sample).queues[0].available
    };
    assert_eq!(depth(9, Some(sampled(50))), Depth { jobs: 9, is_exact: true });
    assert_eq!(depth(10, Some(sampled(50))), Depth { jobs: 50, is_exact: false });
    assert_eq!(depth(10, Some(sampled(3))).to_string(), "10+", "the sample is older than the count");
    assert_eq!(depth(10, None).to_string(), "10+");
}

#[test]
fn queues_that_only_run_are_listed_and_everything_is_added() {
    let stats =
        Stats::new(vec![queue("q", 3)], &held(&[], true), &[("a".into(), 2), ("q".into(), 1)], Some(Vec::new()), None);
    let names: Vec<&str> = stats.queues.iter().map(|queue| queue.queue.as_str()).collect();
    assert_eq!((names, stats.queues[0].running, stats.queues[1].running), (vec!["a", "q"], 2, 1));
    assert_eq!((stats.unfinished(), stats.counted.now), (Depth { jobs: 8, is_exact: true }, true));
    assert!(!Stats::new(vec![queue("q", 10)], &held(&[], true), &[], None, None).unfinished().is_exact);
}

#[test]
fn held_jobs_are_a_number_of_their_own_and_an_estimate_if_there_are_too_many() {
    let kinds = vec![
        KindStats { queue: "b".into(), kind: "k".into(), held: 50, scheduled: 9, ..KindStats::default() },
        KindStats { queue: "c".into(), kind: "k".into(), held: 7, ..KindStats::default() },
    ];
    let sample = Sample { kinds, ..sampled(0) };
    let of = |held: &HeldCounts| {
        let stats = Stats::new(vec![queue("b", 3)], held, &[], None, Some(sample.clone()));
        let depths = stats.queues.iter().map(|queue| format!("{} {} {}", queue.queue, queue.later, queue.held));
        (depths.collect::<Vec<_>>().join(", "), stats.unfinished().to_string())
    };
    assert_eq!(of(&held(&[("a", 1, 4), ("b", 5, 0)], true)), ("a 4 1, b 2 5".into(), "15".into()));
    assert_eq!(of(&held(&[("b", 5, 1)], false)), ("b 9+ 50+, c 0+ 7+".into(), "69+".into()));
}

#[test]
fn queues_that_were_long_at_the_last_count_are_known() {
    let kind = |queue: &str, available, retrying| KindStats {
        queue: queue.into(),
        available,
        retrying,
        ..KindStats::default()
    };
    let kinds = vec![kind("a", 6000, 1), kind("a", 6000, 1), kind("b", 10_000, 0), kind("c", 0, 10_001)];
    let sample = Sample { kinds, ..sampled(0) };
    let long = LongQueues { available: vec!["a".into()], later: vec!["c".into()] };
    assert_eq!(LongQueues::of(Some(&sample)), long);
    let old = Sample { age_seconds: Some(RECENT_SECONDS + 1.0), ..sample };
    assert_eq!([LongQueues::of(Some(&old)), LongQueues::of(None)], [LongQueues::default(), LongQueues::default()]);
}
