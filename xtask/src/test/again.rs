//! Runs failed tests once more, each alone on the machine. One that passes then is flaky: a defect of the test, or a
//! race in the product.

use super::{
    output,
    program::Program,
    run_program::{How, run_program},
};

/// The number of flaky tests that fails the run.
const MANY: usize = 3;
/// If more tests have failed, the product is broken, and second runs would say nothing.
const WORTHWHILE: usize = 10;

/// A test that failed, with what it wrote.
pub(super) struct FailedTest<'a> {
    pub(super) program: &'a Program,
    pub(super) name: String,
    pub(super) output: String,
}

/// Returns a text for each flaky test, and the names of those that failed again.
pub(super) fn run(failed: Vec<FailedTest<'_>>, how: &How<'_>) -> (Vec<String>, Vec<String>) {
    let (mut flaky, mut broken) = (Vec::new(), Vec::new());
    let worthwhile = failed.len() <= WORTHWHILE;
    for test in failed {
        let title = format!("{} {}", test.program.name, test.name);
        let second = worthwhile.then(|| run_program(&test.program.only(&test.name), "again", how));
        match second {
            Some(second) if second.verdict.is_ok() && output::counts(&second.output).passed == 1 => {
                let (first, second) = (&test.output, &second.output);
                let why = output::end_on_one_line(first);
                flaky.push(format!("FLAKY {title}: {why}\n  first run:\n{first}\n  second run:\n{second}"));
            }
            _ => broken.push(title),
        }
    }
    if flaky.len() >= MANY {
        broken.push(format!("{} tests are flaky, and a run may have {} at most", flaky.len(), MANY - 1));
    }
    (flaky, broken)
}
