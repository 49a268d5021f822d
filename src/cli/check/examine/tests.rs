use std::collections::BTreeMap;

use chrono::Utc;
use diesel_jobs_core::storage::ScheduledJob;
use diesel_jobs_core::{CatchUp, CountedTo, HeldCounts, QueueCount, WorkerId};

use super::*;

fn facts() -> Facts {
    Facts {
        kinds: ["send".to_owned(), "plain".to_owned(), "ship".to_owned()].into(),
        queues: ["mail".to_owned()].into(),
        schedules: ["send".to_owned()].into(),
        unknown: Vec::new(),
        sequences: ["ship".to_owned()].into(),
    }
}

fn stats(queue: &str, kind: &str, available: i64, scheduled: i64) -> KindStats {
    KindStats {
        queue: queue.to_owned(),
        kind: kind.to_owned(),
        available,
        scheduled,
        retrying: 0,
        held: 0,
        running: 0,
        completed: 9,
        cancelled: 9,
        discarded: 9,
        oldest_wait_seconds: (available > 0).then_some(61.0),
    }
}

/// The numbers of these kinds, counted now.
fn of(kinds: &[KindStats]) -> Stats {
    let names: BTreeSet<&str> = kinds.iter().map(|kind| kind.queue.as_str()).collect();
    let counted = |queue: &str| {
        let of_queue = || kinds.iter().filter(|kind| kind.queue == queue);
        let oldest_wait_seconds = of_queue().filter_map(|kind| kind.oldest_wait_seconds).reduce(f64::max);
        let (available, later) =
            (of_queue().map(|kind| kind.available).sum(), of_queue().map(|kind| kind.scheduled).sum());
        let to = |jobs| CountedTo { jobs, limit: 1000 };
        QueueCount { queue: queue.to_owned(), available: to(available), later: to(later), oldest_wait_seconds }
    };
    let held = kinds.iter().map(|kind| (kind.queue.clone(), kind.held, 0)).collect();
    let held = HeldCounts { queues: held, is_whole: true };
    Stats::new(names.into_iter().map(counted).collect(), &held, &[], Some(kinds.to_vec()), None)
}

fn worker(queue: &str, alive: bool) -> WorkerRecord {
    WorkerRecord {
        id: WorkerId::generate(),
        host: "h".to_owned(),
        pid: 1,
        queues: vec![queue.to_owned()],
        started_at: Utc::now(),
        heartbeat_at: Utc::now(),
        alive,
        version: None,
        kinds: None,
        slots: BTreeMap::new(),
        asked: None,
        asked_at: None,
        asked_by: None,
        draining_at: None,
    }
}

fn schedule(kind: &str, expression: &str, paused: bool) -> StoredSchedule {
    StoredSchedule {
        name: kind.to_owned(),
        kind: kind.to_owned(),
        expression: expression.to_owned(),
        timezone: "UTC".to_owned(),
        catch_up: CatchUp::Skip,
        last_tick: Utc::now(),
        paused,
        is_added: false,
        job: ScheduledJob::default(),
    }
}

fn codes(stats: &[KindStats], workers: &[WorkerRecord], schedules: &[StoredSchedule]) -> Vec<&'static str> {
    examine(&facts(), &of(stats), workers, schedules).iter().map(|finding| finding.code).collect()
}

#[test]
fn served_jobs_and_ended_ones_are_no_problem() {
    let live = [worker("mail", true)];
    assert!(codes(&[stats("mail", "send", 3, 2), stats("gone", "gone", 0, 0)], &live, &[]).is_empty());
}

#[test]
fn a_queue_without_a_worker_is_an_error() {
    let dead = [worker("mail", true), worker("slow", false)];
    assert_eq!(codes(&[stats("slow", "send", 0, 1)], &dead, &[]), ["unserved_queue"]);
    assert!(codes(&[stats("slow", "send", 0, 1)], &[worker("slow", true)], &[]).is_empty());
}

#[test]
fn a_typing_error_in_the_name_of_an_unserved_queue_is_recognised() {
    let help = |queue| examine(&facts(), &of(&[stats(queue, "send", 0, 1)]), &[], &[]).remove(0).help;
    assert!(help("mial").contains("was `mail` meant?"), "{}", help("mial"));
    assert!(!help("reports").contains("meant"), "{}", help("reports"));
}

#[test]
fn a_kind_without_handler_is_an_error_unless_another_worker_serves_its_queue() {
    assert_eq!(codes(&[stats("mail", "old", 0, 1)], &[], &[]), ["unserved_kind"]);
    assert!(codes(&[stats("slow", "old", 0, 1)], &[worker("slow", true)], &[]).is_empty());
}

#[test]
fn due_jobs_without_a_live_worker_are_a_warning() {
    let findings = examine(&facts(), &of(&[stats("mail", "send", 2, 0)]), &[worker("mail", false)], &[]);
    let [finding] = &findings[..] else { panic!("{findings:?}") };
    assert!(!finding.is_error());
    assert_eq!(finding.message, "2 jobs are due and no worker is alive; the oldest has waited 1 min 1 s");
    assert!(codes(&[stats("mail", "send", 0, 2)], &[], &[]).is_empty());
}

#[test]
fn rows_that_were_set_apart_are_a_warning_that_names_the_newest() {
    assert!(set_apart(&DeadLetters::default()).is_none());
    let (kind, queue, reason) = ("send".to_owned(), "mail".to_owned(), "its id is that of a running job".to_owned());
    let newest = DeadLetter {
        number: 7,
        id: diesel_jobs_core::JobId(17),
        kind,
        queue,
        reason,
        at: chrono::DateTime::UNIX_EPOCH,
    };
    let finding = set_apart(&DeadLetters { count: 3, newest: Some(newest) }).unwrap();
    assert!(!finding.is_error());
    assert_eq!(
        finding.message,
        "3 rows were set apart in jobs.dead_letter, because the database refused to move them on; the newest at \
         1970-01-01 00:00:00Z: job 17 of kind `send` in queue `mail`: its id is that of a running job"
    );
    assert!(finding.help.contains("select jobs.put_back(7)"), "{}", finding.help);
}

#[test]
fn schedules_that_cannot_tick_are_found_unless_paused() {
    let never = "0 0 0 30 2 *";
    assert_eq!(codes(&[], &[], &[schedule("send", never, false)]), ["bad_schedule"]);
    assert_eq!(codes(&[], &[], &[schedule("old", "0 0 2 * * *", false)]), ["unserved_schedule"]);
    assert_eq!(codes(&[], &[], &[schedule("plain", "0 0 2 * * *", false)]), ["stale_schedule"]);
    let of_sequence = StoredSchedule { name: "by hand".to_owned(), ..schedule("ship", "0 0 2 * * *", false) };
    assert_eq!(codes(&[], &[], &[of_sequence]), ["schedule_in_sequence"]);
    let by_hand = StoredSchedule { name: "by hand".to_owned(), ..schedule("plain", "0 0 2 * * *", false) };
    assert!(codes(&[], &[], &[by_hand]).is_empty());
    assert!(codes(&[], &[], &[schedule("send", never, true), schedule("send", "0 0 2 * * *", false)]).is_empty());
}
