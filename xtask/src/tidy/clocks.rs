//! No test of the gate has a verdict that depends on the speed of the machine.

use super::file::{File, code};

/// A pause of this many milliseconds lets a clock go on, such as past the end of a lease of one millisecond. A longer
/// one does no harm, and the test is right on every machine.
const TICK: u64 = 20;

/// Forbids bounds of elapsed time, and pauses right before an assertion, unless a comment on the line or above it gives
/// the reason. Programs that measure may have both.
pub(super) fn no_clocks(files: &[File]) -> Vec<String> {
    files.iter().filter(|file| file.is_rust() && is_of_the_gate(&file.path)).flat_map(complaints).collect()
}

fn is_of_the_gate(path: &str) -> bool {
    let mut parts = path.split('/');
    path.contains("test") && !parts.any(|part| part == "measured" || part == "measured.rs")
}

fn complaints(file: &File) -> Vec<String> {
    let lines: Vec<&str> = file.text.lines().collect();
    let has_reason = |at: usize| code(lines[at]) != lines[at] || at > 0 && lines[at - 1].trim_start().starts_with("//");
    let complain = |(at, line): (usize, &&str)| {
        let line = code(line).trim();
        let problem = if line.contains("assert") && line.contains(".elapsed() <") {
            "a bound of elapsed time; wait for a signal, or move it to a program named `measured`"
        } else if is_pause(line) && lines.get(at + 1).is_some_and(|next| next.trim().starts_with("assert")) {
            "a pause before an assertion; wait for a signal or a row"
        } else {
            return None;
        };
        (!has_reason(at)).then(|| format!("{}:{}: {problem}; if it must be, a comment says why", file.path, at + 1))
    };
    lines.iter().enumerate().filter_map(complain).collect()
}

fn is_pause(line: &str) -> bool {
    let millis = line.split_once("from_millis(").and_then(|(_, rest)| rest.split_once(')')?.0.parse().ok());
    line.contains("sleep(") && line.ends_with(';') && millis.is_none_or(|millis: u64| millis > TICK)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts_by_the_clock_are_named() {
        let complaints = |path: &str, text: &str| {
            no_clocks(&[File { path: path.to_owned(), text: text.to_owned(), symlink: false }]).len()
        };
        let bound = "assert!(begun.elapsed() < LIMIT);\n";
        let pause = "sleep(SOME).await;\nassert_eq!(jobs, 0);\n";
        assert_eq!(complaints("tests/cli/suite/tail.rs", bound), 1);
        assert_eq!(complaints("tests/cli/suite/tail.rs", pause), 1);
        let tick = "sleep(Duration::from_millis(20)).await;\nassert_eq!(jobs, 0);\n";
        assert_eq!((complaints("tests/a.rs", tick), complaints("tests/a.rs", &tick.replace("20", "500"))), (0, 1));
        assert_eq!(complaints("tests/worker/measured/pickup.rs", bound), 0);
        assert_eq!(complaints("jobs-core/src/worker/fetcher.rs", bound), 0);
        assert_eq!(complaints("tests/cli/suite/tail.rs", &format!("// The limit is minutes.\n{bound}")), 0);
        assert_eq!(complaints("tests/cli/suite/tail.rs", "sleep(SOME).await; // as a user would\nassert!(x);\n"), 0);
        assert_eq!(
            complaints("tests/cli/suite/tail.rs", "while begun.elapsed() < LIMIT {\nsleep(SOME).await;\n}\n"),
            0
        );
    }
}
