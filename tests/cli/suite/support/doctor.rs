//! What `doctor` finds in a test's database.

use serde_json::Value;

use super::Run;

/// Findings about the server of all tests: it has settings that are for tests only, and other tests use it.
const OF_SERVER: [&str; 6] =
    ["setting", "old_transaction", "connections", "notification_queue", "wraparound", "autovacuum"];

/// The findings that a run of `doctor --json` has printed, apart from those about the server.
pub(crate) struct Findings(Vec<Value>);

impl Findings {
    /// Reads them. The exit code and `ok` must say whether there is an error.
    pub(crate) fn of(run: &Run) -> Self {
        let report = run.json();
        let findings = report["findings"].as_array().unwrap().clone();
        let has_error = findings.iter().any(|finding| finding["severity"] == "error");
        assert_eq!((&report["ok"], run.code), (&Value::Bool(!has_error), i32::from(has_error)), "{run:#?}");
        Self(findings.into_iter().filter(|one| OF_SERVER.iter().all(|check| one["check"] != *check)).collect())
    }

    /// Their severities and checks, in their order: `error:unserved_queue`.
    pub(crate) fn checks(&self) -> Vec<String> {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        self.0.iter().map(|one| format!("{}:{}", text(&one["severity"]), text(&one["check"]))).collect()
    }

    /// The one finding of this check: what is wrong, and the repair.
    #[track_caller]
    pub(crate) fn one(&self, check: &str) -> (String, String) {
        let of_check: Vec<&Value> = self.0.iter().filter(|one| one["check"] == check).collect();
        let [one] = of_check[..] else { panic!("one finding {check}: {:?}", self.0) };
        (one["what"].as_str().unwrap().to_owned(), one["repair"].as_str().unwrap().to_owned())
    }
}
