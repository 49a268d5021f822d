//! Tests of the set of queues. Those on databases are in `tests/worker/suite/patterns.rs`.

use super::*;
use crate::layer::Layers;
use crate::outcome::Retention;
use crate::overrides::Overrides;
use crate::recorder::Recorders;
use crate::registry::Registry;

fn queues(serves: &[(&str, usize)], slots_total: Option<usize>) -> Queues {
    let settings = Settings {
        queues: serves.iter().map(|(name, slots)| ((*name).to_owned(), *slots)).collect(),
        slots_total,
        poll: Settings::POLL,
        early_polls: Settings::EARLY_POLLS,
        refused_for: Settings::REFUSED_FOR,
        grace: Settings::GRACE,
        lease: Settings::LEASE,
        timeout: None,
        max_crashes: Settings::MAX_CRASHES,
        retention: Retention::default(),
        keep_history: Settings::KEEP_HISTORY,
        environment: None,
        layers: Layers::default(),
        program_version: None,
        recorders: Recorders::default(),
    };
    let live = Arc::new(Live::new(&Registry::new(), Retention::default()));
    Queues::new(&settings, live, vec![("batches", 10), ("tenant-7", 20)])
}

fn found(queues: &Queues, waiting: &[&str], now: Instant) -> bool {
    queues.found(&waiting.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>(), now)
}

fn wanted(queues: &Queues) -> (Vec<(String, usize)>, Option<usize>) {
    let (wanted, most) = queues.wanted();
    (wanted.into_iter().map(|wanted| (wanted.queue.to_string(), wanted.slots)).collect(), most)
}

#[test]
fn queues_that_fit_are_added_once_and_all_others_are_not() {
    let (queues, now) = (queues(&[("mail", 8), ("tenant-*", 4)], None), Instant::now());
    assert_eq!(queues.names(), ["mail"]);
    assert!(found(&queues, &["mail", "other", "tenant-7", "tenant-8", "tenant-*"], now));
    assert!(!found(&queues, &["mail", "tenant-7"], now));
    assert_eq!(queues.names(), ["mail", "tenant-7", "tenant-8"]);
    assert!(queues.serve("tenant-9") && queues.serve("mail") && !queues.serve("other"));
    let slots = |name: &str| queues.loads().into_iter().find(|(of, _)| of == name).map(|(_, [slots, ..])| slots);
    assert_eq!([slots("mail"), slots("tenant-7")], [Some(8), Some(4)]);
    let batches: Vec<usize> = queues.wanted().0.iter().map(|wanted| wanted.prefetch).collect();
    assert_eq!(batches, [0, 4 * 19, 0], "a batch of 20 for each slot of tenant-7");
}

#[test]
fn a_found_queue_is_forgotten_after_a_while_without_jobs_and_a_named_one_never() {
    let (queues, start) = (queues(&[("mail", 8), ("*", 4)], None), Instant::now());
    let after = |seconds| start + Duration::from_secs(seconds);
    found(&queues, &["tenant-7", "tenant-8"], start);
    found(&queues, &["tenant-8"], after(59));
    assert_eq!(queues.names(), ["mail", "tenant-7", "tenant-8"]);
    found(&queues, &[], after(60));
    assert_eq!(queues.names(), ["mail", "tenant-8"]);
    // A claim brought a job of it, which no search has seen.
    queues.read()["tenant-8"].note_used();
    found(&queues, &[], after(119));
    found(&queues, &[], after(178));
    assert_eq!(queues.names(), ["mail", "tenant-8"]);
    found(&queues, &[], after(179));
    assert_eq!(queues.names(), ["mail"]);
    assert!(found(&queues, &["tenant-8"], after(180)), "it is found again");
}

#[test]
fn a_found_queue_has_the_settings_of_operators_at_once() {
    let queues = queues(&[("*", 4)], None);
    let overrides = Overrides {
        slots: std::iter::once(("tenant-7".to_owned(), 1)).collect(),
        paused_queues: std::iter::once("tenant-8".to_owned()).collect(),
        ..Overrides::default()
    };
    queues.live.replace(Arc::new(overrides));
    found(&queues, &["tenant-7", "tenant-8"], Instant::now());
    assert_eq!(wanted(&queues).0, [("tenant-7".to_owned(), 1), ("tenant-8".to_owned(), 4)]);
    assert_eq!(queues.set_slots(&BTreeMap::new()), [("tenant-7".into(), 4)], "the pattern's again");
}

#[test]
fn a_claim_asks_for_no_more_than_may_start_in_all() {
    let queues = queues(&[("a", 2), ("b", 9), ("c", 1)], Some(5));
    let named = |wanted: &[(&str, usize)]| wanted.iter().map(|(name, slots)| ((*name).to_owned(), *slots)).collect();
    assert_eq!(wanted(&queues), (named(&[("a", 2), ("b", 5), ("c", 1)]), Some(5)));
    let total = queues.total.clone().unwrap();
    assert!((0..5).all(|_| total.take()) && !total.take());
    assert_eq!(wanted(&queues), (Vec::new(), None));
    total.give_back();
    assert_eq!(wanted(&queues), (named(&[("a", 1), ("b", 1), ("c", 1)]), Some(1)));
}
