//! The last lines of a run: how long programs and tests took, which tests are flaky, and the counts.

use std::{fmt::Write as _, time::Duration};

/// How many of the slowest tests are named.
const SLOWEST: usize = 10;

#[derive(Debug, Default)]
pub(super) struct Summary {
    pub(super) passed: usize,
    programs: Vec<(Duration, String)>,
    tests: Vec<(Duration, String)>,
}

impl Summary {
    /// Adds a program that has ended.
    pub(super) fn add(&mut self, name: &str, took: Duration, passed: usize, tests: Vec<(Duration, String)>) {
        self.passed += passed;
        self.programs.push((took, name.to_owned()));
        self.tests.extend(tests.into_iter().map(|(took, test)| (took, format!("{name} {test}"))));
    }

    pub(super) fn text(mut self, flaky: &[String], failed: usize) -> String {
        let mut text = String::new();
        for (title, rows, most) in
            [("Programs", &mut self.programs, usize::MAX), ("The slowest tests", &mut self.tests, SLOWEST)]
        {
            rows.sort_by(|a, b| b.cmp(a));
            let _ = writeln!(text, "{title}");
            for (took, name) in rows.iter().take(most) {
                let _ = writeln!(text, "{:>8.1} s  {name}", took.as_secs_f64());
            }
        }
        for test in flaky {
            let _ = writeln!(text, "\n{test}");
        }
        let _ = writeln!(text, "\n{} passed, {failed} failed", self.passed);
        text
    }
}
