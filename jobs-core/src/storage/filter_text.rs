//! The textual form of a filter: words such as `state:discarded,retrying kind:charge args.user.id:7`. The command line,
//! the URLs of the dashboard and the audit share it.

use std::fmt;
use std::str::FromStr;

use super::filter::{ArgIs, JobFilter, Span};
use super::filter_conditions::CONDITIONS;
use crate::job_id::JobId;
use crate::lease::WorkerId;
use crate::nearest::nearest;
use crate::shell::in_quotation_marks;
use crate::state::JobState;

impl FromStr for JobFilter {
    type Err = String;

    /// Reads words that are separated by white space: `name:value`, or `name:value,value`. A value with white space, a
    /// comma or a quotation mark stands between quotation marks, and `\"` in it is one of them.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut filter = Self::default();
        let mut rest = text.trim_start();
        while !rest.is_empty() {
            let (key, values, after) = word(rest)?;
            filter.add(&key, values)?;
            rest = after.trim_start();
        }
        filter.validate()?;
        Ok(filter)
    }
}

impl JobFilter {
    fn add(&mut self, key: &Key, values: Vec<String>) -> Result<(), String> {
        let one = |values: Vec<String>| match <[String; 1]>::try_from(values) {
            Ok([value]) => Ok(value),
            Err(values) => Err(format!(
                "{key} takes one value, not {}; write a value with a comma between quotation marks: {key}:\"{}\"",
                values.len(),
                values.join(",")
            )),
        };
        let name = match key {
            Key::Arg(path) => {
                self.args.push(ArgIs { path: path.clone(), value: one(values)? });
                return Ok(());
            }
            Key::Name(name) => name.as_str(),
        };
        match name {
            "id" => self.ids.extend(each(&values, |value| {
                value
                    .parse()
                    .map(JobId)
                    .map_err(|_| format!("id: {value:?} is not the id of a job, which is a whole number"))
            })?),
            "state" => self
                .states
                .extend(each(&values, |value| value.parse::<JobState>().map_err(|error| format!("state: {error}")))?),
            "kind" => self.kinds.extend(values),
            "queue" => self.queues.extend(values),
            "tag" => self.tags.extend(values),
            "priority" => set(key, &mut self.priority, one(values)?, |value| {
                value.parse().map_err(|_| format!("{value:?} is not a whole number from -32768 to 32767"))
            })?,
            "error" => set(key, &mut self.error, one(values)?, |value| Ok(value.to_owned()))?,
            "fingerprint" => set(key, &mut self.fingerprint, one(values)?, |value| {
                value.parse().map_err(|_| {
                    format!("{value:?} is not a whole number, such as the fingerprint of a group of failures")
                })
            })?,
            "worker" => set(key, &mut self.worker, one(values)?, |value| {
                value
                    .parse()
                    .map(WorkerId)
                    .map_err(|_| format!("{value:?} is not the id of a worker, as `worker stats` prints it"))
            })?,
            "enqueued_before" => set(key, &mut self.enqueued.before, one(values)?, str::parse)?,
            "enqueued_after" => set(key, &mut self.enqueued.after, one(values)?, str::parse)?,
            "run_at_before" => set(key, &mut self.run_at.before, one(values)?, str::parse)?,
            "run_at_after" => set(key, &mut self.run_at.after, one(values)?, str::parse)?,
            "finished_before" => set(key, &mut self.finished.before, one(values)?, str::parse)?,
            "finished_after" => set(key, &mut self.finished.after, one(values)?, str::parse)?,
            unknown => {
                let names = CONDITIONS.map(|condition| condition.name);
                let hint = nearest(unknown, names).map(|key| format!("did you mean {key}? ")).unwrap_or_default();
                return Err(format!(
                    "{unknown:?} is not a condition of a filter; {hint}write one of {}",
                    names.join(", ")
                ));
            }
        }
        Ok(())
    }
}

fn each<T>(values: &[String], read: impl Fn(&str) -> Result<T, String>) -> Result<Vec<T>, String> {
    values.iter().map(|value| read(value)).collect()
}

fn set<T>(
    key: &Key,
    place: &mut Option<T>,
    value: String,
    read: impl FnOnce(&str) -> Result<T, String>,
) -> Result<(), String> {
    if place.is_some() {
        return Err(format!("{key} is given twice; write it once"));
    }
    *place = Some(read(&value).map_err(|problem| format!("{key}: {problem}"))?);
    Ok(())
}

/// The name of a condition.
enum Key {
    Name(String),
    Arg(Vec<String>),
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Arg(path) => {
                f.write_str("args")?;
                path.iter().try_for_each(|name| write!(f, ".{}", quoted(name, &['.', ':'])))
            }
        }
    }
}

/// Reads one word. Returns its name, its values and what follows.
fn word(text: &str) -> Result<(Key, Vec<String>, &str), String> {
    let start: String = text.chars().take(40).collect();
    let missing = || format!("{start:?}: a condition is a name, a colon and a value, such as state:discarded");
    let (first, mut rest) = piece(text, &['.', ':'])?;
    let mut path = Vec::new();
    while let Some(after) = rest.strip_prefix('.') {
        let (name, after) = piece(after, &['.', ':'])?;
        path.push(name);
        rest = after;
    }
    let mut rest = rest.strip_prefix(':').ok_or_else(missing)?;
    let key = match (first.as_str(), path.is_empty()) {
        ("args", _) => Key::Arg(path),
        (_, true) => Key::Name(first),
        _ => return Err(format!("{start:?}: only args has a path; write args.{}", path.join("."))),
    };
    let mut values = Vec::new();
    loop {
        if !rest.starts_with('"') && rest.chars().next().is_none_or(|c| c.is_whitespace() || c == ',') {
            return Err(format!("{key}: the value is missing; write {key}:\"\" if it is the empty text"));
        }
        let (value, after) = piece(rest, &[','])?;
        values.push(value);
        match after.strip_prefix(',') {
            Some(after) => rest = after,
            None if after.is_empty() || after.starts_with(char::is_whitespace) => return Ok((key, values, after)),
            None => return Err(format!("{key}: white space is missing after the closing quotation mark")),
        }
    }
}

/// Reads a quoted text, or all characters up to white space or one of `ends`. Returns it and what follows.
#[doc(hidden)]
pub fn piece<'t>(text: &'t str, ends: &[char]) -> Result<(String, &'t str), String> {
    let Some(inner) = text.strip_prefix('"') else {
        let end = text.find(|c: char| c.is_whitespace() || ends.contains(&c)).unwrap_or(text.len());
        let (piece, rest) = text.split_at(end);
        return Ok((piece.to_owned(), rest));
    };
    let mut piece = String::new();
    let mut chars = inner.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Ok((piece, &inner[at + 1..])),
            '\\' => piece.extend(chars.next().map(|(_, escaped)| escaped)),
            c => piece.push(c),
        }
    }
    Err(format!("a quotation mark is not closed: {:?}", text.chars().take(40).collect::<String>()))
}

/// The text as [`piece`] reads it.
fn quoted(text: &str, ends: &[char]) -> String {
    let is_plain =
        !text.is_empty() && !text.contains(|c: char| c.is_whitespace() || c == '"' || c == ',' || ends.contains(&c));
    if is_plain { text.to_owned() } else { in_quotation_marks(text) }
}

fn list<T: ToString>(words: &mut Vec<String>, key: &str, values: &[T]) {
    if !values.is_empty() {
        let values: Vec<String> = values.iter().map(|value| quoted(&value.to_string(), &[])).collect();
        words.push(format!("{key}:{}", values.join(",")));
    }
}

fn span(words: &mut Vec<String>, name: &str, span: Span) {
    list(words, &format!("{name}_after"), span.after.as_slice());
    list(words, &format!("{name}_before"), span.before.as_slice());
}

impl fmt::Display for JobFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut words = Vec::new();
        list(&mut words, "id", &self.ids);
        list(&mut words, "state", &self.states);
        list(&mut words, "kind", &self.kinds);
        list(&mut words, "queue", &self.queues);
        list(&mut words, "tag", &self.tags);
        list(&mut words, "priority", self.priority.as_slice());
        list(&mut words, "error", self.error.as_slice());
        list(&mut words, "fingerprint", self.fingerprint.as_slice());
        list(&mut words, "worker", self.worker.as_slice());
        span(&mut words, "enqueued", self.enqueued);
        span(&mut words, "run_at", self.run_at);
        span(&mut words, "finished", self.finished);
        for arg in &self.args {
            list(&mut words, &Key::Arg(arg.path.clone()).to_string(), std::slice::from_ref(&arg.value));
        }
        f.write_str(&words.join(" "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_condition_is_written_as_it_is_read() {
        let text = "id:7,8 state:discarded,retrying kind:charge queue:mail,\"a b\" tag:x priority:-3 error:\"it said \\\"no\\\", twice\" \
                    fingerprint:-42 worker:018f4c1e-0000-7000-8000-000000000001 enqueued_after:1d enqueued_before:2h \
                    run_at_before:2026-01-31T08:00:00Z finished_after:10m args.user.id:7 args.\"a.b\".0:\"\"";
        let filter: JobFilter = text.parse().unwrap();
        assert_eq!(filter.to_string(), text);
        assert_eq!(filter.args[1].path, ["a.b", "0"]);
        let json = serde_json::to_string(&filter).unwrap();
        assert_eq!(serde_json::from_str::<JobFilter>(&json).unwrap(), filter);
        assert_eq!("".parse::<JobFilter>().unwrap(), JobFilter::default());
        assert_eq!("kind:a  kind:b".parse::<JobFilter>().unwrap().to_string(), "kind:a,b");
    }

    #[test]
    fn a_wrong_filter_is_refused_with_what_is_allowed() {
        for (text, part) in [
            ("discarded", "a condition is a name, a colon and a value"),
            ("stat:discarded", "did you mean state?"),
            ("state:dead", "write one of available, scheduled"),
            ("colour:red", "write one of id, state"),
            ("state:", "the value is missing"),
            ("state:,running", "the value is missing"),
            ("state:running,", "the value is missing"),
            ("priority:1,2", "takes one value, not 2"),
            ("priority:40000", "from -32768 to 32767"),
            ("priority:1 priority:2", "given twice"),
            ("error:\"open", "is not closed"),
            ("error:\"a\"b", "white space is missing"),
            ("enqueued_before:yesterday", "write a time such as"),
            ("worker:me", "not the id of a worker"),
            ("id:seven", "whole number"),
            ("args:7", "path of the argument is missing"),
            ("args.:7", "is empty"),
            ("kind.x:7", "only args has a path"),
            (":x", "not a condition"),
            ("kind:a\0b", "NUL"),
        ] {
            let error = text.parse::<JobFilter>().unwrap_err();
            assert!(error.contains(part), "{text:?}: {error}");
        }
    }

    #[test]
    fn any_text_is_read_or_refused() {
        for seed in 0_u32..3000 {
            let mut state = seed;
            let text: String = (0..20)
                .map(|_| {
                    state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    ["kind", ":", "\"", "\\", ",", " ", ".", "args", "é", "state", "0", "\u{202e}"]
                        [(state >> 24) as usize % 12]
                })
                .collect();
            if let Ok(filter) = text.parse::<JobFilter>() {
                assert_eq!(filter.to_string().parse::<JobFilter>().as_ref(), Ok(&filter), "{text:?}");
            }
        }
    }
}
