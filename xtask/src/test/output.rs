//! What the output of a test program says about its tests.

use std::{collections::BTreeMap, time::Duration};

/// How many characters of a failed test's output a list shows.
const SHOWN: usize = 400;

/// The number of tests that passed, and the names of those that failed.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) passed: usize,
    pub(super) failed: Vec<String>,
}

/// Reads the summaries at the ends of the test runs that the output contains.
pub(super) fn counts(output: &str) -> Counts {
    let mut counts = Counts::default();
    let mut lines = output.lines().peekable();
    while let Some(line) = lines.next() {
        if let Some(result) = line.strip_prefix("test result: ") {
            let passed = result.split_once(". ").and_then(|(_, numbers)| numbers.split_once(" passed"));
            counts.passed += passed.and_then(|(number, _)| number.parse::<usize>().ok()).unwrap_or_default();
        } else if line == "failures:" {
            // There are two such blocks: the first one has the outputs, and the second one the names.
            while let Some(name) = lines.next_if(|line| line.starts_with("    ")) {
                counts.failed.push(name.trim().to_owned());
            }
        }
    }
    counts
}

/// Returns what a failed test wrote, without its backtrace, which is in the output of the program.
pub(super) fn of_test(output: &str, name: &str) -> String {
    let head = format!("---- {name} stdout ----");
    let lines = output.lines().skip_while(|line| *line != head).skip(1);
    let ends = |line: &str| {
        ["failures:", "stack backtrace:"].contains(&line) || line.starts_with("---- ") && line.ends_with(" stdout ----")
    };
    let own = lines.take_while(|line| !ends(line));
    own.collect::<Vec<_>>().join("\n").trim().to_owned()
}

/// The end of what a failed test wrote, for a list of tests.
pub(super) fn end_on_one_line(output: &str) -> String {
    let words: Vec<&str> = output.split_whitespace().collect();
    let text = words.join(" ");
    let from = text.char_indices().rev().nth(SHOWN - 1).map_or(0, |(from, _)| from);
    text[from..].to_owned()
}

/// When the tests of a program ended, from which follows how long each of them took.
#[derive(Debug, Default)]
pub(super) struct Times {
    ends: BTreeMap<String, Duration>,
    /// The part of a line that has been read.
    rest: String,
}

impl Times {
    /// Takes what the program has written until this time after its start.
    pub(super) fn read(&mut self, text: &str, at: Duration) {
        self.rest.push_str(text);
        let (whole, rest) = self.rest.rsplit_once('\n').unwrap_or(("", &self.rest));
        for line in whole.lines() {
            let Some((name, "ok" | "FAILED")) = line.strip_prefix("test ").and_then(|line| line.rsplit_once(" ... "))
            else {
                continue;
            };
            let name = name.trim_end_matches(" - should panic");
            // Programs that are compiled, and examples in documentation, are run otherwise.
            if !name.contains([' ', '/']) {
                self.ends.insert(name.to_owned(), at);
            }
        }
        self.rest = rest.to_owned();
    }

    /// Returns how long each test took, if this many ran at a time. The test harness starts them in the order of their
    /// names, and the next one when one of them has ended.
    pub(super) fn each(self, at_a_time: usize) -> Vec<(Duration, String)> {
        let mut ends: Vec<Duration> = self.ends.values().copied().collect();
        ends.sort_unstable();
        let starts = std::iter::repeat_n(Duration::ZERO, at_a_time).chain(ends);
        self.ends.into_iter().zip(starts).map(|((name, end), start)| (end.saturating_sub(start), name)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "
running 3 tests
test claims::first ... ok
test claims::second ... FAILED
test panics::third - should panic ... FAILED

failures:

---- claims::second stdout ----
it broke
    with details
stack backtrace:
   0: somewhere
---- panics::third stdout ----
note: test did not panic as expected

failures:
    claims::second
    panics::third

test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.10s

test result: ok. 4 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.10s
";

    #[test]
    fn tests_are_counted_and_failed_ones_named() {
        let failed = ["claims::second", "panics::third"].map(str::to_owned).to_vec();
        assert_eq!(counts(OUTPUT), Counts { passed: 5, failed });
        assert_eq!(of_test(OUTPUT, "claims::second"), "it broke\n    with details");
        assert_eq!(of_test(OUTPUT, "panics::third"), "note: test did not panic as expected");
        assert_eq!(of_test(OUTPUT, "claims::first"), "");
        assert_eq!(end_on_one_line("it broke\n    with details"), "it broke with details");
        assert_eq!(end_on_one_line(&"ä".repeat(SHOWN + 1)), "ä".repeat(SHOWN));
    }

    #[test]
    fn the_next_test_begins_when_one_has_ended() {
        let mut times = Times::default();
        let second = Duration::from_secs;
        // Two run at a time: a from 0 to 5, b from 0 to 1, c from 1 to 3, d from 3 to 4.
        times.read("test b ... ok\ntest c ..", second(1));
        times.read(". FAILED\n", second(3));
        times.read("test fail/arg.rs ... ok\nnoise\ntest d - should panic ... ok\n", second(4));
        times.read("test a ... ok\n", second(5));
        let each: Vec<_> = times.each(2).into_iter().map(|(time, name)| (name, time.as_secs())).collect();
        assert_eq!(each, [("a", 5), ("b", 1), ("c", 2), ("d", 1)].map(|(name, time)| (name.to_owned(), time)));
    }
}
