//! How numbers, durations and times are written.

use std::borrow::Borrow;
use std::fmt;

use askama::filters::HtmlSafe;
use chrono::{DateTime, Datelike as _, SecondsFormat, TimeDelta, Utc};
use diesel_jobs_core::Depth;
use diesel_jobs_core::storage::Count;

/// A time: relative, and after a minute absolute beside it. Times are UTC; the script writes them in the reader's zone.
pub(crate) struct When {
    at: DateTime<Utc>,
    now: DateTime<Utc>,
}

/// It contains only digits and our own words.
impl HtmlSafe for When {}

/// Shows a time as seen from `now`.
pub(crate) fn ago(at: &DateTime<Utc>, now: &DateTime<Utc>) -> When {
    When { at: *at, now: *now }
}

impl fmt::Display for When {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { at, now } = self;
        let exact = at.to_rfc3339_opts(SecondsFormat::Millis, true);
        let title = at.format("%Y-%m-%d %H:%M:%S UTC");
        let relative = relative(*at, *now);
        if (*at - *now).abs() < TimeDelta::minutes(1) {
            return write!(
                f,
                "<time datetime=\"{exact}\" title=\"{title}\"><span class=\"ago\">{relative}</span></time>"
            );
        }
        write!(
            f,
            "<time datetime=\"{exact}\" title=\"{title}\"><span class=\"ago\">{relative}</span> <span class=\"at\">{}</span></time>",
            clock(*at, *now)
        )
    }
}

/// `14:05 UTC`, and the day if it is not today.
pub(crate) fn clock(at: DateTime<Utc>, now: DateTime<Utc>) -> String {
    let form = match (at.year() == now.year(), at.date_naive() == now.date_naive()) {
        (_, true) => "%H:%M UTC",
        (true, false) => "%-d %b %H:%M UTC",
        (false, false) => "%-d %b %Y %H:%M UTC",
    };
    at.format(form).to_string()
}

/// `3 min ago`, `in 2 h`, `now`.
pub(crate) fn relative(at: DateTime<Utc>, now: DateTime<Utc>) -> String {
    let passed = now - at;
    match passed.num_seconds() {
        0 => "now".to_owned(),
        1.. => format!("{} ago", span(passed)),
        _ => format!("in {}", span(-passed)),
    }
}

/// The largest unit that fits: `45 s`, `3 min`, `2 h`, `5 d`.
pub(crate) fn span(span: TimeDelta) -> String {
    seconds(span.as_seconds_f64())
}

/// A duration in the unit that suits it, with at most three digits before the unit.
pub(crate) fn seconds(seconds: f64) -> String {
    const MINUTE: f64 = 60.0;
    const HOUR: f64 = 60.0 * MINUTE;
    const DAY: f64 = 24.0 * HOUR;
    match seconds.max(0.0) {
        s if s < 0.001 => "<1 ms".to_owned(),
        s if s < 0.9995 => format!("{:.0} ms", s * 1000.0),
        s if s < 9.95 => format!("{s:.1} s"),
        s if s < 2.0 * MINUTE => format!("{s:.0} s"),
        s if s < 2.0 * HOUR => format!("{:.0} min", s / MINUTE),
        s if s < 2.0 * DAY => format!("{:.0} h", s / HOUR),
        s => format!("{:.0} d", s / DAY),
    }
}

/// A number with a comma between groups of three digits.
pub(crate) fn count(number: impl Borrow<i64>) -> String {
    let number = *number.borrow();
    let digits = number.unsigned_abs().to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3 + 1);
    if number < 0 {
        text.push('-');
    }
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number of jobs. A plus says that there may be more, and its title why. It is the same on all pages.
pub(crate) struct Amount {
    jobs: i64,
    is_exact: bool,
}

/// It contains only digits and our own words.
impl HtmlSafe for Amount {}

/// What the plus of an [`Amount`] means.
pub(crate) const PLUS: &str = "This many or more: counting stops early, so that pages stay fast.";

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = count(self.jobs);
        if self.is_exact {
            f.write_str(&digits)
        } else {
            write!(f, "<span class=\"plus\" title=\"{PLUS}\">{digits}+</span>")
        }
    }
}

impl Amount {
    /// Whether there is no job.
    pub(crate) fn is_none(&self) -> bool {
        self.jobs == 0 && self.is_exact
    }
}

/// An exact number. Templates pass references.
pub(crate) fn exactly(jobs: impl Number) -> Amount {
    Amount { jobs: jobs.number(), is_exact: true }
}

/// A number of those that were examined. Without `is_exact`, there may be more. None is not `0+`.
pub(crate) fn examined(number: impl Number, is_exact: bool) -> Amount {
    let jobs = number.number();
    Amount { jobs, is_exact: is_exact || jobs == 0 }
}

pub(crate) fn depth(depth: Depth) -> Amount {
    Amount { jobs: depth.jobs, is_exact: depth.is_exact }
}

/// Templates pass references.
pub(crate) fn amount(count: impl Borrow<Count>) -> Amount {
    let Count { jobs, is_exact } = *count.borrow();
    Amount { jobs: i64::try_from(jobs).unwrap_or(i64::MAX), is_exact }
}

/// A number that was counted up to `most` and one more.
pub(crate) fn up_to(number: u32, most: u32) -> Amount {
    Amount { jobs: i64::from(number.min(most)), is_exact: number <= most }
}

/// A number of things. Templates pass references.
pub(crate) trait Number {
    fn number(self) -> i64;
}

impl Number for i64 {
    fn number(self) -> i64 {
        self
    }
}

impl Number for u64 {
    fn number(self) -> i64 {
        i64::try_from(self).unwrap_or(i64::MAX)
    }
}

impl Number for usize {
    fn number(self) -> i64 {
        i64::try_from(self).unwrap_or(i64::MAX)
    }
}

impl<T: Number + Copy> Number for &T {
    fn number(self) -> i64 {
        (*self).number()
    }
}

/// `1 job`, `2 jobs`.
pub(crate) fn counted(number: impl Number, one: &str, many: &str) -> String {
    let number = number.number();
    format!("{} {}", count(number), if number == 1 { one } else { many })
}

/// The text as a sentence. A name at its beginning, such as `max_attempts` or `priority:`, stays as it is.
pub(crate) fn sentence(text: &str) -> String {
    let end = if text.ends_with(['.', '?']) { "" } else { "." };
    if text.split_whitespace().next().is_some_and(|word| word.contains(['_', ':'])) {
        return format!("{text}{end}");
    }
    let mut letters = text.chars();
    let first: String = letters.next().map(|letter| letter.to_uppercase().collect()).unwrap_or_default();
    format!("{first}{}{end}", letters.as_str())
}

/// The parts of a text that stand between backticks, and the others: names and commands are shown as code.
pub(crate) fn prose(text: &str) -> Vec<(bool, &str)> {
    let mut parts: Vec<(bool, &str)> = text.split('`').enumerate().map(|(at, part)| (at % 2 == 1, part)).collect();
    // A backtick alone begins nothing.
    if parts.len().is_multiple_of(2) {
        return vec![(false, text)];
    }
    parts.retain(|(_, part)| !part.is_empty());
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_groups() {
        for (number, expected) in [(0, "0"), (999, "999"), (1000, "1,000"), (-1_234_567, "-1,234,567")] {
            assert_eq!(count(number), expected);
        }
        assert_eq!(
            (counted(1_i64, "job", "jobs"), counted(1000_i64, "job", "jobs")),
            ("1 job".into(), "1,000 jobs".into())
        );
    }

    #[test]
    fn a_number_that_may_be_more_has_a_plus_with_a_title() {
        assert_eq!(depth(Depth { jobs: 1200, is_exact: true }).to_string(), "1,200");
        let title = format!("<span class=\"plus\" title=\"{PLUS}\">1,000+</span>");
        assert_eq!(amount(Count { jobs: 1000, is_exact: false }).to_string(), title);
        assert_eq!((up_to(1001, 1000).to_string(), up_to(1000, 1000).to_string()), (title, "1,000".to_owned()));
    }

    #[test]
    fn a_sentence_begins_with_a_capital_letter_or_a_name() {
        for (text, expected) in [
            ("it has 2 fields", "It has 2 fields."),
            ("max_attempts is 0.", "max_attempts is 0."),
            ("priority: it is no number", "priority: it is no number."),
            ("", "."),
        ] {
            assert_eq!(sentence(text), expected);
        }
    }

    #[test]
    fn texts_between_backticks_are_code() {
        assert_eq!(prose("queue `a b` is `c`"), [(false, "queue "), (true, "a b"), (false, " is "), (true, "c")]);
        assert_eq!(prose("a ` alone"), [(false, "a ` alone")]);
    }

    #[test]
    fn durations_have_one_unit() {
        let expected = [
            (0.0, "<1 ms"),
            (-5.0, "<1 ms"),
            (0.25, "250 ms"),
            (0.9999, "1.0 s"),
            (45.0, "45 s"),
            (119.0, "119 s"),
            (180.0, "3 min"),
            (7200.0, "2 h"),
            (172_800.0, "2 d"),
        ];
        for (input, text) in expected {
            assert_eq!(seconds(input), text);
        }
    }

    #[test]
    fn times_are_relative_and_exact() {
        let now = DateTime::from_timestamp(1_800_000_000, 0).unwrap();
        assert_eq!(relative(now - TimeDelta::minutes(5), now), "5 min ago");
        assert_eq!(relative(now + TimeDelta::hours(3), now), "in 3 h");
        assert_eq!(relative(now, now), "now");
        let html = ago(&(now - TimeDelta::seconds(59)), &now).to_string();
        assert_eq!(
            html,
            "<time datetime=\"2027-01-15T07:59:01.000Z\" title=\"2027-01-15 07:59:01 UTC\"><span class=\"ago\">59 s ago</span></time>"
        );
        let html = ago(&(now - TimeDelta::days(3)), &now).to_string();
        assert_eq!(
            html,
            "<time datetime=\"2027-01-12T08:00:00.000Z\" title=\"2027-01-12 08:00:00 UTC\"><span class=\"ago\">3 d ago</span> \
             <span class=\"at\">12 Jan 08:00 UTC</span></time>"
        );
        assert_eq!(clock(now + TimeDelta::hours(3), now), "11:00 UTC");
        assert_eq!(clock(now - TimeDelta::days(30), now), "16 Dec 2026 08:00 UTC");
    }
}
