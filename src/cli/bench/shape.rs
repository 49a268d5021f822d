//! The shape of each job of the load: duration, size and failures.

use std::time::Duration;

use serde::Serialize;

/// The most bytes of one job's arguments. A batch of 1000 such jobs is 64 MiB.
const LONGEST: usize = 64 * 1024;
/// The most bytes of arguments of all waiting jobs together.
const WAITING: u64 = 64 * 1024 * 1024;

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(super) struct Shape {
    /// How long the handler sleeps.
    #[serde(rename = "work_ms", serialize_with = "as_millis")]
    pub(super) work: Duration,
    /// The bytes of the arguments. A number below the smallest possible size has no effect.
    #[serde(rename = "args_bytes")]
    pub(super) args: usize,
    /// The share of the jobs whose first attempt fails, from 0 to 1.
    pub(super) fail: f64,
}

impl Shape {
    /// Whether the job with this number fails. The failing jobs are spread evenly over the numbers.
    pub(super) fn fails(&self, number: u64) -> bool {
        let failed = |number: u64| (number as f64 * self.fail).floor();
        failed(number + 1) > failed(number)
    }

    /// Returns how many of these jobs may wait if `jobs` were asked for. The limit is the bytes of their arguments.
    pub(super) fn at_most(&self, jobs: u64) -> u64 {
        jobs.min(WAITING / self.args.max(1) as u64)
    }

    /// Returns a description of what differs from the smallest job. `None` if nothing differs.
    pub(super) fn description(&self) -> Option<String> {
        let work = (!self.work.is_zero()).then(|| format!("sleeps {} ms", self.work.as_millis()));
        let args = (self.args > 0).then(|| format!("has {} bytes of arguments", self.args));
        let fail = (self.fail > 0.0).then(|| format!("fails at its first attempt in {} % of cases", self.fail * 100.0));
        let parts: Vec<String> = [work, args, fail].into_iter().flatten().collect();
        (!parts.is_empty()).then(|| format!("each job {}", parts.join(", ")))
    }
}

fn as_millis<S: serde::Serializer>(span: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(u64::try_from(span.as_millis()).unwrap_or(u64::MAX))
}

/// Parses a number of bytes: `4096`, `4KiB`.
pub(super) fn bytes(text: &str) -> Result<usize, String> {
    let (digits, factor) = match text.trim().strip_suffix("KiB") {
        Some(digits) => (digits.trim_end(), 1024),
        None => (text.trim(), 1),
    };
    let bytes: usize = digits
        .parse()
        .ok()
        .and_then(|number: usize| number.checked_mul(factor))
        .ok_or_else(|| format!("{text:?} is not a number of bytes; write one such as 500 or 4KiB"))?;
    if bytes > LONGEST {
        return Err(format!("{text:?} is too much; write {} KiB or less as {}KiB", LONGEST / 1024, LONGEST / 1024));
    }
    Ok(bytes)
}

/// Parses a share: `1%`, `0.5%`.
pub(super) fn share(text: &str) -> Result<f64, String> {
    let percent = text.trim().strip_suffix('%').and_then(|number| number.trim_end().parse::<f64>().ok());
    match percent {
        Some(percent) if (0.0..=100.0).contains(&percent) => Ok(percent / 100.0),
        _ => Err(format!("{text:?} is not a share from 0% to 100%; write one such as 1%")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_shares_are_parsed_and_wrong_ones_are_refused() {
        assert_eq!([bytes("500"), bytes("4KiB"), bytes("64 KiB"), bytes("0")], [Ok(500), Ok(4096), Ok(65_536), Ok(0)]);
        for text in ["65KiB", "99999999999999999999", "4MiB", "-1", "", "KiB"] {
            assert!(bytes(text).unwrap_err().contains(&format!("{text:?}")), "{text}");
        }
        assert_eq!([share("1%"), share("0.5 %"), share("100%")], [Ok(0.01), Ok(0.005), Ok(1.0)]);
        for text in ["1", "101%", "-1%", "%", "NaN%", ""] {
            assert!(share(text).unwrap_err().contains("write one such as 1%"), "{text}");
        }
    }

    #[test]
    fn as_many_jobs_fail_as_were_asked_for() {
        for (fail, expected) in [(0.0, 0), (0.01, 10), (0.5, 500), (1.0, 1000)] {
            let shape = Shape { fail, ..Shape::default() };
            assert_eq!((0..1000).filter(|number| shape.fails(*number)).count(), expected, "{fail}");
        }
    }

    #[test]
    fn a_shape_says_what_differs_from_the_smallest_job() {
        assert_eq!(Shape::default().description(), None);
        let shape = Shape { work: Duration::from_millis(20), args: 4096, fail: 0.01 };
        let words = "each job sleeps 20 ms, has 4096 bytes of arguments, fails at its first attempt in 1 % of cases";
        assert_eq!(shape.description().as_deref(), Some(words));
        assert_eq!((Shape::default().at_most(5_000), shape.at_most(50_000)), (5_000, 16_384));
    }
}
