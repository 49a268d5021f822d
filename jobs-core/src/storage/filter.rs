//! Which jobs an operator means. Lists, counts, actions and stored operations share this filter, and it has one textual
//! form, see `filter_text.rs`. As JSON it is the column `filter` of `jobs.operation`.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use serde_json::Value;

use super::when::When;
use crate::job_id::JobId;
use crate::lease::WorkerId;
use crate::queue_pattern::check_one_queue;
use crate::state::JobState;

/// The most ids in a filter.
pub const MAX_FILTER_IDS: usize = 1000;
/// The most values in any other list.
pub(super) const MAX_VALUES: usize = 100;
/// The longest text in a filter, in bytes.
const MAX_TEXT_BYTES: usize = 1000;
/// The longest path of an argument.
const MAX_PATH: usize = 16;

/// Which jobs an operator means: those that meet all conditions that are set. An empty list sets no condition. A list
/// means any of its values, but a job must have all of `tags`.
///
/// ```
/// # use diesel_jobs_core::storage::JobFilter;
/// let filter: JobFilter = "state:discarded,retrying kind:charge enqueued_before:2h args.user.id:7".parse()?;
/// assert_eq!(filter.kinds, ["charge"]);
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
// An unknown condition must not be left out: the filter would match more jobs than the operator has meant.
#[serde(default, deny_unknown_fields)]
pub struct JobFilter {
    /// These jobs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ids: Vec<JobId>,
    /// In one of these states.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub states: Vec<JobState>,
    /// Of one of these kinds.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub kinds: Vec<String>,
    /// In one of these queues.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub queues: Vec<String>,
    /// With all of these tags.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// With this priority.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<i16>,
    /// Enqueued in this time.
    #[serde(skip_serializing_if = "Span::is_open")]
    pub enqueued: Span,
    /// Due in this time.
    #[serde(skip_serializing_if = "Span::is_open")]
    pub run_at: Span,
    /// Ended in this time. Jobs that have not ended do not match.
    #[serde(skip_serializing_if = "Span::is_open")]
    pub finished: Span,
    /// The newest failure contains this text. Upper and lower case of ASCII letters are the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The newest failure has this fingerprint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<i64>,
    /// The newest attempt is or was of this worker. Waiting jobs do not match.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worker: Option<WorkerId>,
    /// With these values in their arguments.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<ArgIs>,
}

/// A range of time. Both ends are excluded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Span {
    /// Later than this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<When>,
    /// Earlier than this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<When>,
}

impl Span {
    /// Whether it sets no condition.
    pub fn is_open(&self) -> bool {
        *self == Self::default()
    }
}

/// A value in the arguments: a string with this text, or the number or truth value that is written so.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ArgIs {
    /// The names of the fields from the outside in. A number is also the place in an array, from 0.
    pub path: Vec<String>,
    /// The text of the value.
    pub value: String,
}

impl JobFilter {
    /// The filter for these jobs.
    pub fn of_ids(ids: impl IntoIterator<Item = JobId>) -> Self {
        Self { ids: ids.into_iter().collect(), ..Self::default() }
    }

    /// The filter for jobs in this state.
    pub fn of_state(state: JobState) -> Self {
        Self { states: vec![state], ..Self::default() }
    }

    /// The filter for jobs of this kind.
    pub fn of_kind(kind: impl Into<String>) -> Self {
        Self { kinds: vec![kind.into()], ..Self::default() }
    }

    /// The filter for jobs in this queue.
    pub fn of_queue(queue: impl Into<String>) -> Self {
        Self { queues: vec![queue.into()], ..Self::default() }
    }

    /// Reads the JSON form. The text says what is wrong.
    pub fn from_json(json: &str) -> Result<Self, String> {
        // serde would also read a struct from a list, and an empty list as a filter without conditions.
        let conditions: serde_json::Map<String, Value> =
            serde_json::from_str(json).map_err(|error| error.to_string())?;
        let spans = ["enqueued", "run_at", "finished"];
        if let Some(name) = spans.iter().find(|name| conditions.get(**name).is_some_and(|span| !span.is_object())) {
            return Err(format!("{name} is not an object"));
        }
        serde_json::from_value(Value::Object(conditions)).map_err(|error| error.to_string())
    }

    /// The filter with times in place of ages. A stored operation has one, so that it does not match other jobs later.
    pub fn fixed(&self, now: DateTime<Utc>) -> Self {
        let fixed = |span: Span| {
            let at = |when: When| When::At(when.at(now));
            Span { after: span.after.map(at), before: span.before.map(at) }
        };
        Self {
            enqueued: fixed(self.enqueued),
            run_at: fixed(self.run_at),
            finished: fixed(self.finished),
            ..self.clone()
        }
    }

    /// Whether it sets no condition, so that all jobs match.
    pub fn matches_all(&self) -> bool {
        *self == Self::default()
    }

    /// Whether the filter lets jobs of this state through.
    pub fn takes(&self, state: JobState) -> bool {
        (self.states.is_empty() || self.states.contains(&state))
            && (self.finished.is_open() || state.is_finished())
            && (self.worker.is_none() || !state.is_waiting())
    }

    /// Whether it needs more than the row of a job: other rows, or the arguments.
    pub fn is_costly(&self) -> bool {
        self.error.is_some() || self.fingerprint.is_some() || !self.args.is_empty()
    }

    /// Refuses what a database could not search for. The text says what is wrong and what is allowed.
    pub fn validate(&self) -> Result<(), String> {
        most("ids", self.ids.len(), MAX_FILTER_IDS)?;
        most("states", self.states.len(), MAX_VALUES)?;
        for (what, texts) in [("kinds", &self.kinds), ("queues", &self.queues), ("tags", &self.tags)] {
            most(what, texts.len(), MAX_VALUES)?;
            texts.iter().try_for_each(|value| text(what, value))?;
        }
        self.queues.iter().try_for_each(|queue| check_one_queue(queue))?;
        if let Some(error) = &self.error {
            text("error", error)?;
        }
        for span in [self.enqueued, self.run_at, self.finished] {
            if [span.after, span.before].into_iter().flatten().any(|when| !when.is_in_range()) {
                return Err("a time of the filter is too far away; take one of the years 1 to 9999".to_owned());
            }
        }
        most("args", self.args.len(), MAX_VALUES)?;
        self.args.iter().try_for_each(ArgIs::validate)
    }
}

impl ArgIs {
    fn validate(&self) -> Result<(), String> {
        text("value of an argument", &self.value)?;
        if self.path.is_empty() {
            return Err("args: the path of the argument is missing; write args.user.id:7".to_owned());
        }
        most("names in the path of an argument", self.path.len(), MAX_PATH)?;
        if self.path.iter().filter(|name| index(name).is_some()).count() > 4 {
            return Err("args: a path has at most 4 numbers".to_owned());
        }
        for name in &self.path {
            text("name of an argument", name)?;
            if name.is_empty() {
                return Err("args: a name in the path is empty; write args.user.id:7".to_owned());
            }
            if name.contains(['"', '\\']) || name.chars().any(char::is_control) {
                return Err(format!(
                    "args: the name {name:?} has a quotation mark, a backslash or a control character, for which a filter cannot look"
                ));
            }
        }
        Ok(())
    }
}

/// The place in an array that this name of a path may mean.
pub fn index(name: &str) -> Option<u32> {
    let is_number =
        !name.is_empty() && name.bytes().all(|b| b.is_ascii_digit()) && (name == "0" || !name.starts_with('0'));
    if is_number { name.parse().ok() } else { None }
}

fn most(what: &str, given: usize, allowed: usize) -> Result<(), String> {
    if given > allowed {
        return Err(format!("the filter has {given} {what}, and the limit is {allowed}"));
    }
    Ok(())
}

fn text(what: &str, value: &str) -> Result<(), String> {
    if value.len() > MAX_TEXT_BYTES {
        return Err(format!("{what}: a text has {} bytes, and the limit is {MAX_TEXT_BYTES}", value.len()));
    }
    if value.contains('\0') {
        return Err(format!("{what}: a text contains a NUL character, which databases do not store"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_of_an_unknown_condition_is_refused_and_not_left_out() {
        for json in [
            r#"{"colour":"red"}"#,
            r#"{"enqueued":{"since":"1h"}}"#,
            r#"{"states":["gone"]}"#,
            r#"{"run_at":{"before":"x"}}"#,
            "[]",
            "null",
        ] {
            assert!(JobFilter::from_json(json).is_err(), "{json}");
        }
        assert!(JobFilter::from_json("{}").unwrap().matches_all());
    }

    #[test]
    fn what_no_database_can_look_for_is_refused() {
        let arg = |path: &[&str]| JobFilter {
            args: vec![ArgIs { path: path.iter().map(|name| (*name).to_owned()).collect(), value: "1".to_owned() }],
            ..JobFilter::default()
        };
        for (filter, part) in [
            (JobFilter::of_ids((0..1001).map(JobId)), "1001 ids"),
            (JobFilter { kinds: vec!["a\0".to_owned()], ..JobFilter::default() }, "NUL"),
            (JobFilter { error: Some("e".repeat(1001)), ..JobFilter::default() }, "1001 bytes"),
            (JobFilter { queues: vec!["tenant-*".to_owned()], ..JobFilter::default() }, "such as `tenant-1`"),
            (arg(&[]), "path of the argument is missing"),
            (arg(&["a", ""]), "is empty"),
            (arg(&["a\"b"]), "quotation mark"),
            (arg(&["1", "2", "3", "4", "5"]), "at most 4 numbers"),
        ] {
            assert!(filter.validate().unwrap_err().contains(part), "{filter:?}");
        }
        assert_eq!(arg(&["user", "id"]).validate(), Ok(()));
    }
}
