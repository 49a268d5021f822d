//! The expectation of `assert_enqueued!` and `refute_enqueued!`, and the message if it does not hold.

use std::collections::BTreeMap;
use std::fmt::{Debug, Write as _};
use std::ops::{Range, RangeInclusive};
use std::time::Duration;

use chrono::{DateTime, Utc};
use diesel_jobs_core::secrets::redacted;
use diesel_jobs_core::storage::StorageResult;
use diesel_jobs_core::{JobRecord, Registered};
use serde_json::value::RawValue;

use super::decoded::{decoded, is_of};
use super::waiting::Waiting;

/// How many jobs a message describes.
const SHOWN: usize = 3;
/// The longest value in a message, in bytes.
const LONGEST: usize = 200;

/// An argument or option that differs from what is expected.
#[derive(Clone, Debug)]
pub struct FieldDifference {
    name: String,
    expected: String,
    stored: String,
}

impl FieldDifference {
    fn new(name: &str, expected: impl Into<String>, stored: impl Into<String>) -> Self {
        Self { name: name.to_owned(), expected: expected.into(), stored: stored.into() }
    }
}

/// Records that an argument is not as expected. For `assert_enqueued!`.
#[doc(hidden)]
pub fn differs(differences: &mut Vec<FieldDifference>, name: &str, expected: &dyn Debug) {
    differences.push(FieldDifference::new(name, cut(format!("{expected:?}")), ""));
}

/// A value of any type, for code that is compiled and never called. For `assert_enqueued!`.
#[doc(hidden)]
pub fn never<T>() -> T {
    unreachable!("only closures that are never called contain it")
}

/// A range of times from now: a range of seconds or of `Duration`s.
pub trait RunIn {
    /// Whether the range contains this number of seconds.
    fn contains_seconds(&self, seconds: f64) -> bool;
}

macro_rules! spans_of_numbers {
    ($($number:ty),*) => {$(
        impl RunIn for Range<$number> {
            fn contains_seconds(&self, seconds: f64) -> bool {
                (self.start as f64..self.end as f64).contains(&seconds)
            }
        }

        impl RunIn for RangeInclusive<$number> {
            fn contains_seconds(&self, seconds: f64) -> bool {
                (*self.start() as f64..=*self.end() as f64).contains(&seconds)
            }
        }
    )*};
}

spans_of_numbers!(i32, i64, u64, f64);

impl RunIn for Range<Duration> {
    fn contains_seconds(&self, seconds: f64) -> bool {
        (self.start.as_secs_f64()..self.end.as_secs_f64()).contains(&seconds)
    }
}

impl RunIn for RangeInclusive<Duration> {
    fn contains_seconds(&self, seconds: f64) -> bool {
        (self.start().as_secs_f64()..=self.end().as_secs_f64()).contains(&seconds)
    }
}

/// A check of one option: its name, what is expected, and what is stored if that is something else.
type Check<'e> = Box<dyn Fn(&JobRecord, DateTime<Utc>) -> Option<FieldDifference> + Send + 'e>;
type Compare<'e, J> = Box<dyn Fn(&J) -> Vec<FieldDifference> + Send + 'e>;

/// Which jobs are expected. `assert_enqueued!` and `refute_enqueued!` create it.
#[must_use = "pass it to a connection's `check`"]
pub struct Expectation<'e, J> {
    written: &'static str,
    compare: Compare<'e, J>,
    checks: Vec<Check<'e>>,
    count: Option<usize>,
}

impl<J> Debug for Expectation<'_, J> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Expectation").field("written", &self.written).finish_non_exhaustive()
    }
}

impl<'e, J> Expectation<'e, J> {
    /// Expects a job of this kind for which `compare` returns no differences. `written` is the source text of the
    /// expectation.
    pub fn new(written: &'static str, compare: impl Fn(&J) -> Vec<FieldDifference> + Send + 'e) -> Self {
        Self { written, compare: Box::new(compare), checks: Vec::new(), count: None }
    }

    fn option<T: Debug + PartialEq + Send + 'e>(
        mut self,
        name: &'static str,
        expected: T,
        stored: impl Fn(&JobRecord) -> T + Send + 'e,
    ) -> Self {
        self.checks.push(Box::new(move |job, _| {
            let stored = stored(job);
            let differs = stored != expected;
            differs.then(|| FieldDifference::new(name, format!("{expected:?}"), format!("{stored:?}")))
        }));
        self
    }

    /// Expects the job in this queue.
    pub fn queue(self, queue: impl Into<String>) -> Self {
        self.option("queue", queue.into(), |job| job.queue.clone())
    }

    /// Expects this priority.
    pub fn priority(self, priority: i16) -> Self {
        self.option("priority", priority, |job| job.priority)
    }

    /// Expects this value of `max_attempts`.
    pub fn max_attempts(self, max_attempts: u16) -> Self {
        self.option("max_attempts", max_attempts, |job| job.max_attempts)
    }

    /// Expects these tags, in this order.
    pub fn tags<T: Into<String>>(self, tags: impl IntoIterator<Item = T>) -> Self {
        let tags: Vec<String> = tags.into_iter().map(Into::into).collect();
        self.option("tags", tags, |job| job.tags.clone())
    }

    /// Expects the job to be due at this time.
    pub fn run_at(self, run_at: DateTime<Utc>) -> Self {
        self.option("run_at", run_at, |job| job.run_at)
    }

    /// Expects the job to be due within this range from now, in seconds or `Duration`s. A job that is already due
    /// counts as 0 seconds.
    pub fn run_in(mut self, span: impl RunIn + Debug + Send + 'e) -> Self {
        self.checks.push(Box::new(move |job, now| {
            let seconds = (job.run_at - now).as_seconds_f64().max(0.0);
            let differs = !span.contains_seconds(seconds);
            differs.then(|| FieldDifference::new("run_in", format!("{span:?}"), format!("{seconds:.1} s")))
        }));
        self
    }

    /// Expects exactly this many jobs. Default: at least one.
    pub fn count(mut self, count: usize) -> Self {
        self.count = Some(count);
        self
    }
}

impl<J: Registered> Expectation<'_, J> {
    /// What differs, option by option and field by field.
    fn differences(&self, job: &JobRecord, now: DateTime<Utc>) -> Vec<FieldDifference> {
        let args = match decoded::<J>(job) {
            Ok(args) => args,
            Err(error) => return vec![FieldDifference::new("arguments", "arguments that decode", error.to_string())],
        };
        // The arguments of an earlier version have other fields.
        let upgraded = (job.kind != J::KIND).then(|| serde_json::to_string(&args).unwrap_or_default());
        let stored = redacted(upgraded.as_deref().unwrap_or(&job.args), J::OPTIONS.secrets);
        let stored: BTreeMap<String, &RawValue> = serde_json::from_str(&stored).unwrap_or_default();
        let mut differences = (self.compare)(&args);
        for difference in &mut differences {
            let value = stored.get(difference.name.as_str());
            difference.stored = cut(value.map_or("nothing", |value| value.get()).to_owned());
        }
        differences.extend(self.checks.iter().filter_map(|check| check(job, now)));
        differences
    }

    fn compare_all(&self, Waiting { jobs, now }: &Waiting) -> Result<(), String> {
        let ours = jobs.iter().filter(|job| is_of::<J>(&job.kind));
        let mut compared: Vec<_> = ours.map(|job| (self.differences(job, *now), job)).collect();
        compared.sort_by_key(|(differences, job)| (differences.len(), job.id));
        let matching = compared.iter().filter(|(differences, _)| differences.is_empty()).count();
        if self.count.map_or(matching > 0, |count| matching == count) {
            return Ok(());
        }
        let written = self.written;
        let mut text = match self.count {
            None => format!("not enqueued: {written}\n"),
            Some(0) => format!("enqueued, but should not be: {written}\n"),
            Some(count) => format!("enqueued {matching} times, expected {count}: {written}\n"),
        };
        for (differences, job) in compared.iter().take(SHOWN) {
            let wait = (job.run_at - *now).as_seconds_f64();
            let due = match wait {
                10.0.. => format!("due in {wait:.0} s"),
                ..=0.0 => "due now".to_owned(),
                _ => format!("due in {wait:.1} s"),
            };
            let _ = write!(text, "  job {} of kind `{}` in queue `{}`, {due}", job.id, job.kind, job.queue);
            if differences.is_empty() {
                text += ": as expected";
            }
            text.push('\n');
            for FieldDifference { name, expected, stored } in differences {
                let _ = writeln!(text, "    {name}: {stored}, expected {expected}");
            }
        }
        if let Some(more @ 1..) = compared.len().checked_sub(SHOWN) {
            let _ = writeln!(text, "  and {more} more of this kind");
        }
        let mut others = BTreeMap::<&str, usize>::new();
        jobs.iter().filter(|job| !is_of::<J>(&job.kind)).for_each(|job| *others.entry(&job.kind).or_default() += 1);
        let others: Vec<String> = others.into_iter().map(|(kind, number)| format!("{number} of `{kind}`")).collect();
        let others = if others.is_empty() { "no job".to_owned() } else { others.join(", ") };
        let _ = write!(text, "  of other kinds: {others}");
        Err(text)
    }

    /// Calls `fail` if these jobs are not as expected, or if the database failed.
    pub(super) fn verify(self, waiting: StorageResult<Waiting>, fail: fn(&str)) {
        let compared = match waiting {
            Ok(waiting) => self.compare_all(&waiting),
            Err(problem) => Err(format!("the waiting jobs cannot be read: {problem}")),
        };
        if let Err(message) = compared {
            fail(&message);
        }
    }
}

fn cut(mut text: String) -> String {
    if text.len() > LONGEST {
        text.truncate(text.floor_char_boundary(LONGEST));
        text += " ..";
    }
    text
}
