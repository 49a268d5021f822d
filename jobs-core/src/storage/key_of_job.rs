//! The unique key of a job, and what an enqueue with the same key does.

use chrono::{DateTime, SecondsFormat, Utc};
use serde::Serialize;

use crate::rules::key_text;
use crate::unique::{OnConflict, Replace, Unique};

/// The unique key that a job has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct KeyOfJob {
    /// The kind without the version of its arguments.
    pub name: String,
    /// The values of the key as JSON, or their hash.
    pub key: String,
    /// Whether the job has the key only until it starts.
    pub until_started: bool,
    /// Until when the job has the key at most.
    pub until: Option<DateTime<Utc>>,
    /// Whether an enqueue with the same key finds the job now.
    pub in_effect: bool,
}

impl KeyOfJob {
    /// The key, how long the job has it, and what an enqueue with the same key does. `rule`: that of the job's kind, if
    /// this program knows the kind.
    pub fn text(&self, rule: Option<Unique>) -> String {
        let Self { name, until_started, until, in_effect, .. } = self;
        let key = key_text(&self.key);
        if !in_effect {
            return format!(
                "{key} of `{name}`, without effect now: an enqueue with the same key inserts a job, which then has the key"
            );
        }
        let end = if *until_started { "starts" } else { "has ended" };
        let at_most = until.map(|until| {
            let until = until.to_rfc3339_opts(SecondsFormat::Secs, true).replacen('T', " ", 1);
            format!(", at most until {until}")
        });
        let at_most = at_most.unwrap_or_default();
        format!("{key} of `{name}`, until the job {end}{at_most}; an enqueue with the same key {}", effect(rule))
    }
}

/// What an enqueue with this rule does to the job that has its key.
fn effect(rule: Option<Unique>) -> String {
    match rule.map(|rule| rule.on_conflict) {
        None => "finds this job, and inserts none".to_owned(),
        Some(OnConflict::Keep) => "leaves this job as it is, and inserts none".to_owned(),
        Some(OnConflict::Error) => "fails".to_owned(),
        Some(OnConflict::RunAgain) => {
            "gives this job its arguments while it waits, and inserts a job that runs after this one while it runs"
                .to_owned()
        }
        Some(OnConflict::Replace(replace)) => {
            format!("changes {} of this job while it waits, and inserts none", parts(replace))
        }
        Some(OnConflict::Debounce { .. }) => {
            "gives this job its arguments and lets it wait again, and inserts none".to_owned()
        }
    }
}

fn parts(Replace { args, run_at, priority }: Replace) -> String {
    let named = [(args, "the arguments"), (run_at, "the time"), (priority, "the priority")];
    let named: Vec<&str> = named.into_iter().filter(|(is, _)| *is).map(|(_, name)| name).collect();
    named.join(" and ")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_text_says_what_an_enqueue_does() {
        let mut key = KeyOfJob {
            name: "welcome".to_owned(),
            key: "[7]".to_owned(),
            until_started: false,
            until: None,
            in_effect: true,
        };
        let rule = Unique::new();
        let begin = "[7] of `welcome`, until the job has ended; an enqueue with the same key";
        for (rule, effect) in [
            (None, "finds this job, and inserts none"),
            (Some(rule), "leaves this job as it is, and inserts none"),
            (Some(rule.on_conflict(OnConflict::Error)), "fails"),
            (
                Some(rule.on_conflict(OnConflict::RunAgain)),
                "gives this job its arguments while it waits, and inserts a job that runs after this one while it runs",
            ),
            (
                Some(rule.on_conflict(OnConflict::Replace(Replace::new().args().priority()))),
                "changes the arguments and the priority of this job while it waits, and inserts none",
            ),
            (
                Some(Unique::debounce(Duration::from_secs(5), Duration::from_secs(60))),
                "gives this job its arguments and lets it wait again, and inserts none",
            ),
        ] {
            assert_eq!(key.text(rule), format!("{begin} {effect}"));
        }
        key.until = DateTime::parse_from_rfc3339("2026-01-02T03:04:05Z").ok().map(|at| at.to_utc());
        key.until_started = true;
        assert!(key.text(None).contains("until the job starts, at most until 2026-01-02 03:04:05Z; "), "{key:?}");
        key.in_effect = false;
        assert!(key.text(Some(rule)).contains("without effect now"), "{key:?}");
    }
}
