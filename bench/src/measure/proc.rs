//! What Linux tells about other processes; elsewhere, nothing.

use std::fs;

/// Parts of a second in which Linux counts CPU time: the same on every architecture that Rust's `std` knows.
const TICKS: f64 = 100.0;

/// CPU time of all these processes so far.
pub(super) fn cpu_seconds(pids: &[u32]) -> Option<f64> {
    pids.iter()
        .map(|pid| ticks(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?).map(|ticks| ticks / TICKS))
        .sum()
}

/// A line of `/proc/PID/status`, in MB: `VmRSS` (now) or `VmHWM` (at most).
pub(super) fn megabytes(pid: u32, name: &str) -> Option<f64> {
    kilobytes(&fs::read_to_string(format!("/proc/{pid}/status")).ok()?, name).map(|kilobytes| kilobytes / 1024.0)
}

/// User and system time of `/proc/PID/stat`; the program's name before them may hold anything.
fn ticks(stat: &str) -> Option<f64> {
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let user: f64 = fields.next()?.parse().ok()?;
    let system: f64 = fields.next()?.parse().ok()?;
    Some(user + system)
}

fn kilobytes(status: &str, name: &str) -> Option<f64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_behind_any_name() {
        let stat = "7 (a) b) S 1 2 3 4 5 6 7 8 9 10 150 50 0 0 20";
        assert_eq!(ticks(stat), Some(200.0));
        let status = "Name:\tx\nVmHWM:\t    2048 kB\nVmRSS:\t    1024 kB\n";
        assert_eq!(kilobytes(status, "VmRSS"), Some(1024.0));
        assert_eq!(kilobytes(status, "Vm"), None);
    }
}
