//! One job's history, to find the cause of a violation.

use std::fmt::Write as _;

use crate::history::Record;

/// Returns everything that is recorded about one job: its rows, then its events in the order of time.
pub fn story(record: &Record, number: i64) -> String {
    let mut lines = Vec::new();
    let jobs: Vec<_> = record.jobs.iter().filter(|job| job.number == number).collect();
    for job in &jobs {
        lines.push((job.enqueued_at, "enqueued".to_owned()));
        if let Some(at) = job.finished_at {
            lines.push((
                at,
                format!("{}: attempt {}, lease {}, worker {:?}", job.state, job.attempt, job.lease, job.worker),
            ));
        }
    }
    for event in record.events.iter().filter(|event| event.number == number) {
        let what = format!(
            "{}: attempt {}, lease {}, worker {}, process {}",
            event.what, event.attempt, event.lease, event.worker, event.pid
        );
        lines.push((event.at, what));
    }
    for failure in record.failures.iter().filter(|failure| jobs.iter().any(|job| job.id == failure.job)) {
        lines.push((
            failure.at,
            format!("failure ({}) of attempt {}: {}", failure.kind, failure.attempt, failure.message),
        ));
    }
    let pids: Vec<i32> = record.events.iter().filter(|event| event.number == number).map(|event| event.pid).collect();
    for fault in record.faults.iter().filter(|fault| fault.pid.is_none_or(|pid| pids.contains(&pid))) {
        lines.push((
            fault.at,
            format!("FAULT {} {}", fault.what, fault.pid.map_or_else(String::new, |pid| pid.to_string())),
        ));
    }
    lines.sort();
    let mut text = format!("history of job number {number}:\n");
    // Writing to a string cannot fail.
    for enqueued in record.enqueued.iter().filter(|row| row.number == number) {
        let _ = writeln!(text, "  the application: {enqueued:?}");
    }
    for job in &jobs {
        let _ = writeln!(text, "  the product: {job:?}");
    }
    for effect in record.effects.iter().filter(|effect| effect.number == number) {
        let _ = writeln!(text, "  effect under lease {} by worker {}", effect.lease, effect.worker);
    }
    for (at, what) in lines {
        let _ = writeln!(text, "  {} {what}", at.format("%H:%M:%S%.6f"));
    }
    text
}
