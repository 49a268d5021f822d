//! Reads CPU time and memory of other processes from Linux's `/proc`. Returns `None` on other systems.

use std::fs;

/// Linux counts CPU time in this many ticks per second. It is the same on every architecture that Rust's `std`
/// supports.
const TICKS: f64 = 100.0;

/// Returns the CPU time of all these processes so far, in seconds.
pub(super) fn cpu_seconds(pids: &[u32]) -> Option<f64> {
    pids.iter()
        .map(|pid| ticks(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?).map(|ticks| ticks / TICKS))
        .sum()
}

/// Returns a line of `/proc/PID/status` in MB: `VmRSS` (now) or `VmHWM` (maximum).
pub(super) fn megabytes(pid: u32, name: &str) -> Option<f64> {
    kilobytes(&fs::read_to_string(format!("/proc/{pid}/status")).ok()?, name).map(|kilobytes| kilobytes / 1024.0)
}

/// Returns user and system time from `/proc/PID/stat`. The program's name before them may contain any character.
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
    fn fields_are_found_after_any_program_name() {
        let stat = "7 (a) b) S 1 2 3 4 5 6 7 8 9 10 150 50 0 0 20";
        assert_eq!(ticks(stat), Some(200.0));
        let status = "Name:\tx\nVmHWM:\t    2048 kB\nVmRSS:\t    1024 kB\n";
        assert_eq!(kilobytes(status, "VmRSS"), Some(1024.0));
        assert_eq!(kilobytes(status, "Vm"), None);
    }
}
