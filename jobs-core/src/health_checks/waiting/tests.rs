use chrono::TimeDelta;

use super::*;
use crate::asked::Asked;
use crate::lease::WorkerId;
use crate::storage::Pause;

const OBJECTIVE: Duration = Duration::from_secs(300);

fn now() -> DateTime<Utc> {
    DateTime::from_timestamp(1_800_000_000, 0).unwrap()
}

/// Jobs that are due since so many seconds.
fn due(queue: &str, kind: &str, jobs: i64, seconds: i64) -> WaitingJobs {
    let oldest_due = Some(now() - TimeDelta::seconds(seconds));
    WaitingJobs { queue: queue.to_owned(), kind: kind.to_owned(), jobs, due: jobs, oldest_due }
}

fn later(queue: &str, kind: &str) -> WaitingJobs {
    WaitingJobs { due: 0, oldest_due: None, ..due(queue, kind, 1, 0) }
}

pub(in crate::health_checks) fn worker(queue: &str, kinds: Option<&[&str]>) -> WorkerRecord {
    WorkerRecord {
        id: WorkerId::generate(),
        host: "h".to_owned(),
        pid: 1,
        queues: vec![queue.to_owned()],
        started_at: now(),
        heartbeat_at: now(),
        alive: true,
        version: None,
        kinds: kinds.map(|kinds| kinds.iter().map(|kind| (*kind).to_owned()).collect()),
        schedules: BTreeMap::new(),
        slots: [(queue.to_owned(), 4)].into(),
        slots_total: None,
        asked: None,
        asked_at: None,
        asked_by: None,
        draining_at: None,
    }
}

fn program(queue: &str, kind: &str) -> Program {
    Program { queues: [queue.to_owned()].into(), kinds: [kind.to_owned()].into(), ..Program::default() }
}

fn of(jobs: Vec<WaitingJobs>, workers: Vec<WorkerRecord>) -> Observed {
    Observed { jobs, workers, ..Observed::default() }
}

fn findings(found: &Observed, program: Option<&Program>) -> Vec<Finding> {
    waiting(found, OBJECTIVE, program, now())
}

fn checks(found: &Observed, program: Option<&Program>) -> Vec<&'static str> {
    findings(found, program).iter().map(|finding| finding.check).collect()
}

#[test]
fn a_live_worker_is_what_counts_and_not_this_program() {
    let live = of(vec![due("mail", "send", 3, 1)], vec![worker("slow", None)]);
    let [one] = &findings(&live, Some(&program("mail", "send")))[..] else { panic!("one finding") };
    assert_eq!((one.check, one.severity), ("unserved_queue", Severity::Error));
    assert_eq!(one.what, "3 jobs wait in queue `mail`, and no live worker serves it");
    assert!(checks(&of(vec![due("mail", "send", 3, 1)], vec![worker("mail", None)]), None).is_empty());
}

#[test]
fn this_program_counts_while_no_worker_claims() {
    let found = of(vec![later("mail", "send"), later("slow", "send"), later("mail", "old")], vec![]);
    assert_eq!(checks(&found, Some(&program("mail", "send"))), ["unserved_queue", "unknown_kind"]);
    assert!(checks(&found, None).is_empty(), "there is nobody to compare with, and nothing is due");
    assert!(
        findings(&found, Some(&program("mail", "send")))[0].what.contains("neither a live worker nor this program")
    );
}

#[test]
fn a_program_that_replaces_the_workers_is_compared_alone() {
    let found = of(vec![due("mail", "old", 1, 900), due("slow", "send", 1, 900)], vec![worker("mail", None)]);
    let program = Program { replaces_workers: true, ..program("mail", "send") };
    let seen = findings(&found, Some(&program));
    assert_eq!(seen.iter().map(|one| one.check).collect::<Vec<_>>(), ["unserved_queue", "unknown_kind"]);
    assert!(seen[1].what.ends_with("and this program has no handler for it"), "{}", seen[1].what);
}

#[test]
fn a_program_that_runs_beside_live_workers_serves_its_queues_as_they_do() {
    let jobs = [("mail", "send"), ("mail", "old"), ("default", "send"), ("lost", "send")];
    let jobs = jobs.map(|(queue, kind)| due(queue, kind, 1, 900)).into();
    let found = of(jobs, vec![worker("default", None)]);
    let beside = Program { joins_workers: true, ..program("mail", "send") };
    let seen = unserved(&found, Some(&beside));
    assert_eq!(seen.iter().map(|one| one.check).collect::<Vec<_>>(), ["unserved_queue", "unknown_kind"]);
    assert!(seen[0].what.contains("`lost`, and neither a live worker nor this program"), "{seen:?}");
    assert!(seen[1].what.contains("`old` waits in queue `mail`, and neither a live worker nor this"), "{seen:?}");
}

#[test]
fn due_jobs_without_a_worker_become_an_error_after_the_objective() {
    let waited = |seconds| findings(&of(vec![due("a", "k", 1, seconds), due("b", "k", 2, 1)], vec![]), None);
    let [one] = &waited(299)[..] else { panic!("one finding") };
    assert_eq!((one.check, one.severity), ("no_worker", Severity::Warning));
    assert!(
        one.what.starts_with("3 jobs are due, the oldest since 2027-01-15 07:55:01Z, and no worker is alive"),
        "{one:?}"
    );
    assert!(one.what.ends_with("Queues: `a`, `b`"), "{one:?}");
    assert_eq!(waited(301)[0].severity, Severity::Error);
    let quiet = WorkerRecord { asked: Some(Asked::Quiet), ..worker("a", None) };
    assert!(
        findings(&of(vec![due("a", "k", 1, 1)], vec![quiet]), None)[0].what.contains("the only live worker drains")
    );
}

#[test]
fn a_kind_that_only_a_dead_worker_knew_is_named() {
    let dead = WorkerRecord { alive: false, ..worker("mail", Some(&["old"])) };
    let found = of(vec![due("mail", "old", 2, 900)], vec![dead, worker("mail", Some(&["send"]))]);
    let [one] = &findings(&found, None)[..] else { panic!("one finding, so the queue is not late as well") };
    assert_eq!((one.check, one.severity), ("unknown_kind", Severity::Error));
    assert_eq!(
        one.what,
        "2 jobs of kind `old` wait in queue `mail`, and no live worker that serves the queue has a handler for it"
    );
    assert!(checks(&of(vec![due("mail", "old", 2, 1)], vec![worker("mail", None)]), None).is_empty(), "an old worker");
}

#[test]
fn what_is_paused_is_named_once() {
    let paused = Some(Pause::default());
    let queue = QueueSettings { name: "mail".to_owned(), paused: paused.clone(), slots: None };
    let kind = KindSettings { name: "send".to_owned(), paused };
    let jobs = vec![due("mail", "greet", 1, 900), due("slow", "send", 1, 900)];
    for workers in [vec![], vec![worker("slow", None)]] {
        let found = Observed { queues: vec![queue.clone()], kinds: vec![kind.clone()], ..of(jobs.clone(), workers) };
        let seen = findings(&found, None);
        assert_eq!(seen.iter().map(|one| one.check).collect::<Vec<_>>(), ["queue_paused", "kind_paused"]);
        assert_eq!(seen[0].repair, "worker queues resume mail");
        assert!(seen.iter().all(|one| one.severity == Severity::Warning));
    }
}

#[test]
fn slots_that_are_0_are_named_instead_of_late_jobs() {
    let queue = QueueSettings { name: "mail".to_owned(), paused: None, slots: Some(0) };
    let found = Observed { queues: vec![queue], ..of(vec![due("mail", "k", 1, 900)], vec![worker("mail", None)]) };
    let [one] = &findings(&found, None)[..] else { panic!("one finding") };
    assert_eq!((one.check, &*one.repair), ("no_slots", "worker queues slots mail default"));
}

#[test]
fn a_late_job_is_an_error_unless_the_database_is_frozen() {
    let found = of(vec![due("mail", "k", 1, 301)], vec![worker("mail", None)]);
    let [one] = &findings(&found, None)[..] else { panic!("one finding") };
    assert_eq!((one.check, one.severity), ("oldest_due", Severity::Error));
    assert!(checks(&of(vec![due("mail", "k", 1, 299)], vec![worker("mail", None)]), None).is_empty());
    let freeze = Freeze { at: now(), by: "ada".to_owned(), reason: "restored".to_owned() };
    for workers in [vec![], vec![worker("mail", None)]] {
        let frozen = Observed { frozen: Some(freeze.clone()), ..of(vec![due("mail", "k", 1, 301)], workers) };
        assert_eq!(checks(&frozen, None), ["frozen"]);
    }
}

#[test]
fn a_typing_error_in_the_name_of_an_unserved_queue_is_recognised() {
    let repair = |queue| findings(&of(vec![later(queue, "k")], vec![worker("mail", None)]), None).remove(0).repair;
    assert!(
        repair("mial").starts_with("if `mail` was meant: worker move --queue mial --to mail;"),
        "{}",
        repair("mial")
    );
    assert_eq!(repair("reports"), "start a worker that serves it: worker run --queues reports");
    // Other systems separate queues by a semicolon, so `--queues` takes such a name in quotation marks only.
    assert_eq!(repair("x; reboot"), "start a worker that serves it: worker run --queues '\"x; reboot\"'");
}

#[test]
fn a_typing_error_in_the_name_of_an_unknown_kind_is_recognised() {
    let repair = |kind: &str| {
        let found = of(vec![due("mail", kind, 1, 1)], vec![worker("mail", Some(&["send_receipt"]))]);
        findings(&found, None).remove(0).repair
    };
    assert!(
        repair("send_reciept").starts_with("if `send_receipt` was meant, cancel the jobs"),
        "{}",
        repair("send_reciept")
    );
    assert!(repair("charge").starts_with("deploy a program with this kind"), "{}", repair("charge"));
}

#[test]
fn a_worker_or_a_program_with_a_pattern_serves_the_queues_that_fit() {
    let jobs = || vec![later("tenant-7", "k"), later("tenants", "k")];
    let by_pattern = of(jobs(), vec![worker("tenant-*", None)]);
    let [one] = &findings(&by_pattern, None)[..] else { panic!("one finding") };
    assert_eq!(one.check, "unserved_queue");
    assert_eq!(one.repair, "start a worker that serves it: worker run --queues tenants", "a pattern is no queue");
    assert!(checks(&of(jobs(), vec![worker("*", None)]), None).is_empty());
    assert_eq!(checks(&of(jobs(), Vec::new()), Some(&program("tenant-*", "k"))), ["unserved_queue"]);
}

#[test]
fn of_many_findings_those_about_the_most_jobs_are_returned() {
    let jobs = (1..=50).map(|number| due(&format!("q{number:02}"), "k", number, 1)).collect();
    let seen = findings(&of(jobs, vec![worker("mail", None)]), None);
    assert_eq!((seen.len(), seen[0].what.starts_with("50 jobs wait in queue `q50`")), (MOST, true));
}
