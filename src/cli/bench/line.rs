//! The messages from a worker process of the load test to the process that started it: lines on its standard output.

use std::io::Write as _;
use std::time::{Duration, SystemTime};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// The worker is registered and claims.
    Ready,
    /// The number of jobs that were completed since the start.
    Done(u64),
    /// The handler of a probe began at this time.
    Picked { number: usize, at: Duration },
}

impl Line {
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut words = text.split(' ');
        let line = match words.next()? {
            "ready" => Self::Ready,
            "done" => Self::Done(words.next()?.parse().ok()?),
            "picked" => {
                let number = words.next()?.parse().ok()?;
                Self::Picked { number, at: Duration::from_nanos(words.next()?.parse().ok()?) }
            }
            _ => return None,
        };
        words.next().is_none().then_some(line)
    }
}

impl std::fmt::Display for Line {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Ready => write!(f, "ready"),
            Self::Done(jobs) => write!(f, "done {jobs}"),
            Self::Picked { number, at } => write!(f, "picked {number} {}", at.as_nanos()),
        }
    }
}

/// Prints the line. Errors are ignored: if the parent no longer reads, this process is about to end.
pub(super) fn say(line: Line) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

/// Returns the time since the Unix epoch. All processes of the machine read the same clock.
pub(super) fn now() -> Duration {
    SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printed_lines_parse_and_others_do_not() {
        for line in [Line::Ready, Line::Done(7), Line::Picked { number: 3, at: Duration::from_nanos(12_345) }] {
            assert_eq!(Line::parse(&line.to_string()), Some(line));
        }
        for text in ["", "done", "done x", "picked 1", "ready 1", "picked 1 2 3"] {
            assert_eq!(Line::parse(text), None, "{text:?}");
        }
    }
}
