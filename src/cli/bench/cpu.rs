//! The work of the processors, read from Linux's `/proc`. On other systems all readings are `None`. For a database on
//! another machine, the reading of its processors is `None`.

use std::fs;
use std::time::Instant;

/// `/proc` counts time in ticks. Linux reports 100 of them per second to user space on all platforms of today, whatever
/// the kernel uses internally.
const TICKS: f64 = 100.0;

/// The source of the readings.
pub(super) struct Cpu {
    /// The PID of the server's main process, the parent of all others.
    server: Option<u32>,
}

/// The counters at one moment.
pub(super) struct Reading {
    at: Instant,
    server: Option<u64>,
    machine: Option<Machine>,
}

#[derive(Clone, Copy)]
struct Machine {
    busy: u64,
    all: u64,
}

/// How busy the processors were between two readings.
pub(super) struct Busy {
    pub(super) database_processors: Option<f64>,
    pub(super) machine: Option<f64>,
}

impl Cpu {
    /// `process` is the PID of a server process on the server's machine. If the server runs on another machine, this
    /// machine has no such process, or the command line of the process does not contain "postgres". Then the server's
    /// counters are not read.
    pub(super) fn of(process: Option<u32>) -> Self {
        let is_postgres = |pid: &u32| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&line).contains("postgres")
        };
        let parent = process.filter(is_postgres).and_then(Stat::of).map(|stat| stat.parent);
        Self { server: parent.filter(is_postgres) }
    }

    pub(super) fn read(&self) -> Reading {
        Reading { at: Instant::now(), server: self.server.and_then(server_ticks), machine: machine() }
    }
}

impl Reading {
    pub(super) fn until(&self, later: &Self) -> Busy {
        let seconds = (later.at - self.at).as_secs_f64();
        let processors = |(from, to): (u64, u64)| to.saturating_sub(from) as f64 / TICKS / seconds;
        let part = |(from, to): (Machine, Machine)| {
            to.busy.saturating_sub(from.busy) as f64 / to.all.saturating_sub(from.all).max(1) as f64
        };
        Busy {
            database_processors: self.server.zip(later.server).map(processors),
            machine: self.machine.zip(later.machine).map(part),
        }
    }
}

/// Returns the ticks that the server and all its children have used. The parent's counters include the children that
/// have ended.
fn server_ticks(server: u32) -> Option<u64> {
    let own = Stat::of(server)?;
    let children = fs::read_dir("/proc").ok()?.flatten().filter_map(|entry| {
        let stat = Stat::of(entry.file_name().to_str()?.parse().ok()?)?;
        (stat.parent == server).then_some(stat.used)
    });
    Some(own.used + own.ended_children + children.sum::<u64>())
}

struct Stat {
    parent: u32,
    used: u64,
    ended_children: u64,
}

impl Stat {
    fn of(pid: u32) -> Option<Self> {
        Self::parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }

    /// Parses the fields after the name. The name is in parentheses and may contain any character.
    fn parse(text: &str) -> Option<Self> {
        let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
        let ticks = |at: usize| fields.get(at)?.parse::<u64>().ok();
        Some(Self {
            parent: fields.get(1)?.parse().ok()?,
            used: ticks(11)? + ticks(12)?,
            ended_children: ticks(13)? + ticks(14)?,
        })
    }
}

fn machine() -> Option<Machine> {
    parse_machine(&fs::read_to_string("/proc/stat").ok()?)
}

/// Parses the first line: user, nice, system, idle, iowait, irq, softirq, steal. The time of guests is included in the
/// first two fields already.
fn parse_machine(text: &str) -> Option<Machine> {
    let line = text.lines().next()?.strip_prefix("cpu ")?;
    let ticks: Vec<u64> = line.split_whitespace().take(8).filter_map(|field| field.parse().ok()).collect();
    let all = ticks.iter().sum();
    let idle = ticks.get(3)? + ticks.get(4)?;
    Some(Machine { busy: all - idle, all })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_read_whatever_its_name() {
        let stat = Stat::parse("42 (post) gres)) S 7 42 42 0 -1 4194560 1 2 3 4 10 20 30 40 20 0 1 0 5 6").unwrap();
        assert_eq!((stat.parent, stat.used, stat.ended_children), (7, 30, 70));
        assert!(Stat::parse("42 (postgres) S").is_none());
    }

    #[test]
    fn idle_and_iowait_time_is_not_busy() {
        let machine = parse_machine("cpu  10 0 20 50 15 1 2 2 0 0\ncpu0 1 1 1 1\n").unwrap();
        assert_eq!((machine.busy, machine.all), (35, 100));
    }

    #[test]
    fn a_process_of_another_program_gives_no_reading() {
        assert!(Cpu::of(Some(std::process::id())).server.is_none());
        assert!(Cpu::of(None).read().server.is_none());
    }
}
