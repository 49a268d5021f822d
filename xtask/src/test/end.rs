//! Waits for the end of a program, and kills it with its descendants if it takes too long.

use std::{
    process::{Child, Command, ExitStatus},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};

/// How often a program is asked whether it has ended.
const POLL: Duration = Duration::from_millis(50);

/// Returns how it ended, or `None` if it was killed after the limit. Calls `look` from time to time, and once after the
/// end.
pub(super) fn wait(mut child: Child, limit: Duration, mut look: impl FnMut()) -> Result<Option<ExitStatus>> {
    let until = Instant::now() + limit;
    while Instant::now() < until {
        let ended = child.try_wait().context("cannot wait for it")?;
        look();
        if ended.is_some() {
            return Ok(ended);
        }
        thread::sleep(POLL);
    }
    let descendants = descendants(child.id());
    child.kill().context("cannot kill it")?;
    child.wait().context("cannot wait for it")?;
    for pid in descendants {
        // It may have ended meanwhile.
        let _ = Command::new("sh").args(["-c", r#"kill -KILL "$0" 2>/dev/null"#, &pid.to_string()]).status();
    }
    Ok(None)
}

/// The processes that a process has started, and those that these have started. None if there is no `ps`.
fn descendants(of: u32) -> Vec<u32> {
    let listed = Command::new("ps").args(["-A", "-o", "pid=,ppid="]).output();
    let text = listed.map_or_else(|_| String::new(), |output| String::from_utf8_lossy(&output.stdout).into_owned());
    let parents: Vec<(u32, u32)> = text.lines().filter_map(parent).collect();
    let mut found = vec![of];
    let mut next = 0;
    while let Some(&ancestor) = found.get(next) {
        found.extend(parents.iter().filter(|(_, parent)| *parent == ancestor).map(|(pid, _)| pid));
        next += 1;
    }
    found.split_off(1)
}

/// A process and its parent.
fn parent(line: &str) -> Option<(u32, u32)> {
    let mut numbers = line.split_whitespace();
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_hangs_is_killed_with_its_descendants() {
        // The descendant would end long after the limit of any run of the tests.
        let script = "sleep 100000 & echo $!; wait";
        let mut child = Command::new("sh").args(["-c", script]).stdout(std::process::Stdio::piped()).spawn().unwrap();
        let mut said = std::io::BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        std::io::BufRead::read_line(&mut said, &mut line).unwrap();
        assert_eq!(descendants(child.id()), [line.trim().parse::<u32>().unwrap()]);
        assert_eq!(wait(child, Duration::from_millis(100), || ()).unwrap(), None);
        // The pipe ends when nobody has it open any more.
        assert_eq!(std::io::Read::read_to_end(&mut said, &mut Vec::new()).unwrap(), 0);
    }

    #[test]
    fn a_program_that_ends_in_time_is_left_alone() {
        let child = Command::new("sh").args(["-c", "exit 7"]).spawn().unwrap();
        assert_eq!(wait(child, Duration::from_secs(60), || ()).unwrap().unwrap().code(), Some(7));
    }
}
