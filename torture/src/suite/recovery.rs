//! The recovery times, by the database's clock.

use torture::history::Record;

/// Returns, in seconds, the times from a worker's end (or suspension) until each of its jobs could be claimed again.
pub(super) fn of_crashes(record: &Record) -> Vec<f64> {
    let crashes = record.failures.iter().filter(|failure| failure.kind == "crash");
    let seconds = crashes.filter_map(|failure| {
        let pid: i32 = failure.message.split_once("(process ")?.1.split_once(' ')?.0.parse().ok()?;
        let faults = record.faults.iter().filter(|fault| fault.pid == Some(pid) && fault.at <= failure.at);
        let since = failure.at - faults.map(|fault| fault.at).max()?;
        Some(since.as_seconds_f64())
    });
    seconds.collect()
}
