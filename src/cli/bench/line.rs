//! What a worker process of the load tells the process that started it: one line of words on its standard output.

use std::io::Write as _;
use std::time::{Duration, SystemTime};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// It is registered and claims.
    Ready,
    /// So many jobs are completed since it started.
    Done(u64),
    /// A probe's handler began, at this time.
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

/// Tells it. Where nobody listens any more, this process is about to end.
pub(super) fn say(line: Line) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

/// The time, as all processes of the machine see it.
pub(super) fn now() -> Duration {
    SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_is_understood() {
        for line in [Line::Ready, Line::Done(7), Line::Picked { number: 3, at: Duration::from_nanos(12_345) }] {
            assert_eq!(Line::parse(&line.to_string()), Some(line));
        }
        for text in ["", "done", "done x", "picked 1", "ready 1", "picked 1 2 3"] {
            assert_eq!(Line::parse(text), None, "{text:?}");
        }
    }
}
