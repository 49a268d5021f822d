//! Parses a cron expression, and finds the error in one that cannot be meant: which field, which value, what is
//! allowed. The parser's own message contains none of these, and it accepts steps that are longer than their field. The
//! macros use this file too (`jobs-macros/src/cron_problem.rs` links here), so that the compiler and the worker report
//! the same message.

use croner::Cron;
use croner::parser::{CronParser, Seconds};

use crate::every;

struct Field {
    name: &'static str,
    least: u32,
    most: u32,
    /// The names of the values, starting with `least`.
    words: &'static [&'static str],
    /// Other letters and signs that the parser accepts in this field.
    signs: &'static str,
}

const fn field(name: &'static str, least: u32, most: u32) -> Field {
    Field { name, least, most, words: &[], signs: "" }
}

const WEEKDAY: &str = "weekday";

const FIELDS: [Field; 7] = [
    field("second", 0, 59),
    field("minute", 0, 59),
    field("hour", 0, 23),
    Field { signs: "LW?", ..field("day of the month", 1, 31) },
    Field {
        words: &["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"],
        ..field("month", 1, 12)
    },
    Field { words: &["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"], signs: "L#?+", ..field(WEEKDAY, 0, 7) },
    field("year", 1, 5000),
];

/// The words that the parser accepts instead of the fields.
const NICKNAMES: [&str; 6] = ["@hourly", "@daily", "@weekly", "@monthly", "@yearly", "@annually"];

/// The accepted forms, with an example of each.
pub(crate) const FORMS: &str = "the form is `min hour day month weekday`, such as \"0 2 * * *\" for every night at two, \
                                or `sec min hour day month weekday`, such as \"0 0 2 * * *\"";

/// Parses an expression, or returns its first problem.
pub(crate) fn parse(expression: &str) -> Result<Cron, String> {
    match CronParser::builder().seconds(Seconds::Optional).build().parse(expression) {
        Ok(cron) => in_fields(expression, Field::step_too_long).map_or(Ok(cron), Err),
        Err(refusal) => Err(problem(expression).unwrap_or_else(|| refusal.to_string())),
    }
}

/// Returns the first problem of an expression. `None` if this module finds none.
fn problem(expression: &str) -> Option<String> {
    let mut words = expression.split_whitespace();
    if let Some(word) = words.next().filter(|word| word.starts_with('@')) {
        return Some(nickname_problem(word, &words.collect::<Vec<_>>().join(" ")));
    }
    if let Some(interval) = every::meant(expression) {
        return Some(is_interval(&interval));
    }
    match expression.split_whitespace().count() {
        5..=7 => in_fields(expression, Field::objection),
        0 => Some("it is empty".to_owned()),
        count => {
            Some(format!("it has {count} field{} instead of five, six or seven", if count == 1 { "" } else { "s" }))
        }
    }
}

/// What is wrong with a word such as `@hourly`, and what follows it.
fn nickname_problem(word: &str, rest: &str) -> String {
    let is = |nickname: &&str| word.eq_ignore_ascii_case(nickname);
    if is(&every::SIGN) {
        return is_interval(&every::meant(rest).unwrap_or_else(|| "90m".to_owned()));
    }
    match NICKNAMES.iter().find(|nickname| is(nickname)) {
        Some(nickname) => format!("{nickname} is a whole expression; remove {rest:?}"),
        None => format!("{word:?} is not one of @hourly, @daily, @weekly, @monthly and @yearly"),
    }
}

fn is_interval(interval: &str) -> String {
    format!("an interval is no cron expression; write it as `every`, such as `every = {interval:?}`")
}

/// The first problem that `find` has with a part of a field.
fn in_fields(expression: &str, find: fn(&Field, &str) -> Option<String>) -> Option<String> {
    let written: Vec<&str> = expression.split_whitespace().collect();
    // The classic form has no seconds.
    let fields = if written.len() == 5 { &FIELDS[1..6] } else { &FIELDS[..] };
    fields.iter().zip(written).find_map(|(field, text)| text.split(',').find_map(|part| find(field, part)))
}

impl Field {
    fn objection(&self, part: &str) -> Option<String> {
        let Self { name, .. } = self;
        let (span, step) = match part.split_once('/') {
            Some((span, step)) => (span, Some(step)),
            None => (part, None),
        };
        let too_long = self.step_too_long(part);
        if too_long.is_some() {
            return too_long;
        }
        if span.is_empty() {
            return step.map(|step| format!("{name} {part:?} has a step but no range; write \"*/{step}\""));
        }
        if let Some(step) = step {
            if !step.parse::<u32>().is_ok_and(|step| step > 0) {
                return Some(format!("{name} {part:?} has the step {step:?}; a step is a whole number from 1"));
            }
            if !span.contains(['*', '-', '?']) {
                let most = self.most;
                return Some(format!("{name} {part:?} has a step without a range; write \"{span}-{most}/{step}\""));
            }
        }
        match span.split_once('-') {
            Some((from, to)) => {
                let objection = self.value(from).err().or_else(|| self.value(to).err());
                objection.or_else(|| match (self.value(from), self.end(to)) {
                    (Ok(Some(first)), Ok(Some(last))) if first > last => {
                        Some(format!("{name} {part:?} runs backwards; write two ranges, separated by a comma"))
                    }
                    _ => None,
                })
            }
            None => self.value(span).err(),
        }
    }

    /// The parser takes a step that reaches beyond the end of its range for the beginning of the range alone.
    fn step_too_long(&self, part: &str) -> Option<String> {
        let Self { name, least, most, .. } = self;
        let (span, step) = part.split_once('/')?;
        let step: u32 = step.parse().ok()?;
        let (first, last) = match span.split_once('-') {
            Some((from, to)) => (self.value(from).ok()??, self.end(to).ok()??),
            None => (*least, *most),
        };
        // Both ends of a whole week are Sunday.
        let last = if self.name == WEEKDAY && (first, last) == (0, 7) { 6 } else { last };
        let longest = last.checked_sub(first)?;
        (step > longest).then(|| {
            let interval = if span.contains('-') { None } else { self.interval(step) };
            let or = interval.map(|interval| format!(", or an interval instead of the expression: `every = {interval:?}`"));
            format!(
                "{name} {part:?} has a step of {step} in a range from {first} to {last}, and so means {first} alone; write a step of at most \
                 {longest}{}",
                or.unwrap_or_default()
            )
        })
    }

    /// The interval of so many units of this field.
    fn interval(&self, number: u32) -> Option<String> {
        let unit = match self.name {
            WEEKDAY | "day of the month" => "day",
            name => name,
        };
        every::meant(&format!("{number} {unit}"))
    }

    /// The same as [`value`](Self::value) for the end of a range, where Sunday is the last day of the week.
    fn end(&self, text: &str) -> Result<Option<u32>, String> {
        match self.value(text)? {
            Some(0) if self.name == WEEKDAY && text != "0" => Ok(Some(7)),
            number => Ok(number),
        }
    }

    /// Returns the number of a value, or what is wrong with it. `None` if it contains signs that only the parser
    /// interprets.
    fn value(&self, text: &str) -> Result<Option<u32>, String> {
        let Self { name, least, most, words, signs } = self;
        let upper = text.to_uppercase();
        if let Some(place) = words.iter().position(|word| *word == upper) {
            return Ok(u32::try_from(place).ok().map(|place| place + least));
        }
        let range = || match words {
            [first, .., last] => format!("write {least} to {most}, or {first} to {last}"),
            _ => format!("write {least} to {most}"),
        };
        match text.parse::<u32>() {
            Ok(number) if (*least..=*most).contains(&number) => Ok(Some(number)),
            Ok(_) => Err(format!("{name} {text} is out of range; {}", range())),
            Err(_) if text == "*" || upper.contains(|c| signs.contains(c)) => Ok(None),
            Err(_) => Err(format!("{name} {text:?} is not understood; {}", range())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{parse, problem};

    #[test]
    fn the_field_the_value_and_the_range_are_named() {
        for (expression, expected) in [
            ("0 0 25 * * *", "hour 25 is out of range; write 0 to 23"),
            ("61 * * * *", "minute 61 is out of range; write 0 to 59"),
            ("0 0 2 0 * *", "day of the month 0 is out of range; write 1 to 31"),
            ("0 0 2 * 1,13 *", "month 13 is out of range; write 1 to 12, or JAN to DEC"),
            ("0 0 2 * * 8", "weekday 8 is out of range; write 0 to 7, or SUN to SAT"),
            ("0 0 2 * * MO", "weekday \"MO\" is not understood; write 0 to 7, or SUN to SAT"),
            ("0 0 2am * * *", "hour \"2am\" is not understood; write 0 to 23"),
            ("0 22-2 * * *", "hour \"22-2\" runs backwards; write two ranges, separated by a comma"),
            ("0 9-24 * * *", "hour 24 is out of range; write 0 to 23"),
            ("0 0 0 * * MON-SUN 9999", "year 9999 is out of range; write 1 to 5000"),
            ("*/0 * * * *", "minute \"*/0\" has the step \"0\"; a step is a whole number from 1"),
            ("5/10 * * * *", "minute \"5/10\" has a step without a range; write \"5-59/10\""),
            ("every 90 minutes", "an interval is no cron expression; write it as `every`, such as `every = \"90m\"`"),
            ("Every 2 hours", "an interval is no cron expression; write it as `every`, such as `every = \"2h\"`"),
            ("every day", "an interval is no cron expression; write it as `every`, such as `every = \"1d\"`"),
            ("90m", "an interval is no cron expression; write it as `every`, such as `every = \"90m\"`"),
            ("30 secs", "an interval is no cron expression; write it as `every`, such as `every = \"30s\"`"),
            ("every 1h 30m", "an interval is no cron expression; write it as `every`, such as `every = \"1h 30m\"`"),
            ("every night", "it has 2 fields instead of five, six or seven"),
            ("", "it is empty"),
            ("@dayly", "\"@dayly\" is not one of @hourly, @daily, @weekly, @monthly and @yearly"),
            ("@everyone 5m", "\"@everyone\" is not one of @hourly, @daily, @weekly, @monthly and @yearly"),
            ("@hourly  please", "@hourly is a whole expression; remove \"please\""),
            ("@Daily 0 2 * * *", "@daily is a whole expression; remove \"0 2 * * *\""),
            ("@every", "an interval is no cron expression; write it as `every`, such as `every = \"90m\"`"),
            ("@every 2h", "an interval is no cron expression; write it as `every`, such as `every = \"2h\"`"),
            (" @every 1h 30m ", "an interval is no cron expression; write it as `every`, such as `every = \"1h 30m\"`"),
            (
                "@every 1d 2h 3m 4s 5s",
                "an interval is no cron expression; write it as `every`, such as `every = \"1d 2h 3m 4s 5s\"`",
            ),
            ("@EVERY half hour", "an interval is no cron expression; write it as `every`, such as `every = \"90m\"`"),
        ] {
            assert_eq!(problem(expression).as_deref(), Some(expected), "{expression:?}");
        }
    }

    #[test]
    fn a_step_beyond_its_range_is_refused() {
        let refusal = |expression: &str| parse(expression).err().unwrap_or_default();
        assert_eq!(
            refusal("*/90 * * * *"),
            "minute \"*/90\" has a step of 90 in a range from 0 to 59, and so means 0 alone; write a step of at most 59, or an interval \
             instead of the expression: `every = \"90m\"`"
        );
        for (expression, interval) in [
            ("0/90 * * * *", "90m"),
            ("/90 * * * *", "90m"),
            ("*/120 * * * * *", "120s"),
            ("0 */48 * * *", "48h"),
            ("0 0 */45 * *", "45d"),
            ("0 0 * * */10", "10d"),
            ("0 0 * * */7", "7d"),
        ] {
            assert!(refusal(expression).ends_with(&format!("`every = \"{interval}\"`")), "{}", refusal(expression));
        }
        for expression in ["0 9-17/9 * * *", "0 0 1 */12 *", "*/999999999 * * * *"] {
            assert!(!refusal(expression).contains("every"), "{}", refusal(expression));
        }
        for (expression, part) in [
            ("*/60 * * * *", "minute \"*/60\""),
            ("*/61 0 * * * *", "second \"*/61\""),
            ("0 */24 * * *", "hour \"*/24\""),
            ("0 9-17/9 * * *", "hour \"9-17/9\""),
            ("0 0 */31 * *", "day of the month \"*/31\""),
            ("0 0 1 */12 *", "month \"*/12\""),
            ("0 0 1 JAN-MAR/3 *", "month \"JAN-MAR/3\""),
            ("0 0 * * MON-FRI/5", "weekday \"MON-FRI/5\""),
            ("0 0 * * MON-SUN/7", "weekday \"MON-SUN/7\" has a step of 7 in a range from 1 to 7"),
            ("0 0 * * 0-7/7", "weekday \"0-7/7\" has a step of 7 in a range from 0 to 6"),
            ("0,10-20/15 * * * *", "minute \"10-20/15\""),
            ("0 0 2 * * */9 2030", "weekday \"*/9\""),
        ] {
            let refusal = refusal(expression);
            assert!(refusal.starts_with(part), "{expression}: {refusal}");
        }
        for expression in [
            "*/59 * * * *",
            "*/30 * * * * *",
            "0 */23 * * *",
            "0 9-17/8 * * *",
            "0 0 */30 * *",
            "0 0 1 */11 *",
            "0 0 * * */2",
            "0 0 * * */6",
            "0 0 * * MON-FRI/4",
            "0 0 * * MON-SUN/6",
            "0 9-17/2 * jan,JUL mon#2",
            "0 0 15W * ?",
            "@daily",
            "0 0 2 * * * 2030-2040/5",
        ] {
            assert_eq!(refusal(expression), "", "{expression}");
            assert!(expression.starts_with('@') || problem(expression).is_none(), "{expression}");
        }
    }
}
