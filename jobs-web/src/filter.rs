//! Which jobs a page shows: read from the address, and written into it.

use diesel_jobs_core::storage::JobFilter;
use diesel_jobs_core::{JobId, JobState};

use crate::failure::Failure;
use crate::link::encode;

/// How many jobs stand on a page.
pub(crate) const PAGE: usize = 50;

/// The filters of the list of jobs, as they stand in the address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Filter {
    pub(crate) state: Option<JobState>,
    pub(crate) kind: String,
    pub(crate) queue: String,
}

/// The id in an address.
pub(crate) fn read_id(text: &str) -> Result<JobId, Failure> {
    let id =
        text.parse().map_err(|_| Failure::NotFound(format!("{text:?} is not the id of a job: ids are numbers.")))?;
    Ok(JobId(id))
}

const ALLOWED: &str = "The filters are: state, kind, queue.";

impl Filter {
    /// Reads the filters. Refuses what it does not know, so that a mistyped filter does not show, or change, all jobs.
    pub(crate) fn read(pairs: &[(String, String)]) -> Result<Self, Failure> {
        let mut filter = Self::default();
        for (name, value) in pairs.iter().filter(|(_, value)| !value.is_empty()) {
            match name.as_str() {
                "state" => filter.state = Some(value.parse().map_err(malformed)?),
                "kind" => filter.kind.clone_from(value),
                "queue" => filter.queue.clone_from(value),
                other => return Err(Failure::Malformed(format!("There is no filter {other:?}. {ALLOWED}"))),
            }
        }
        Ok(filter)
    }

    /// The pairs of the address.
    pub(crate) fn pairs(&self) -> Vec<(&'static str, String)> {
        let state = self.state.map(|state| state.to_string()).unwrap_or_default();
        [("state", state), ("kind", self.kind.clone()), ("queue", self.queue.clone())]
            .into_iter()
            .filter(|(_, value)| !value.is_empty())
            .collect()
    }

    /// The query of the address.
    pub(crate) fn query(&self) -> String {
        encode(self.pairs().iter().map(|(name, value)| (*name, value.as_str())))
    }

    /// The same with another state.
    pub(crate) fn with_state(&self, state: Option<JobState>) -> Self {
        Self { state, ..self.clone() }
    }

    /// What the storage is asked for.
    pub(crate) fn to_storage(&self, limit: usize) -> JobFilter {
        let set = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        JobFilter { state: self.state, queue: set(&self.queue), kind: set(&self.kind), limit }
    }
}

fn malformed(problem: impl ToString) -> Failure {
    Failure::Malformed(problem.to_string())
}
