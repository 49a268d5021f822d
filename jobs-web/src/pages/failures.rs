//! Failures in groups: those of one kind with the same text, apart from numbers and ids.

use askama::Template;
use diesel_jobs_core::storage::{FailureGroup, JobFilter};

use super::jobs::first_line;
use super::{Visit, render};
use crate::failure::Page;
use crate::figure::Figure;
use crate::format;
use crate::redact::{Part, Subject};
use crate::rights::Action;
use crate::shell::{Place, Shell};

/// This many groups are shown.
const SHOWN: usize = 100;

/// A group, and the filter that its jobs match.
struct Group {
    group: FailureGroup,
    message: String,
    /// The filter of its jobs, in its textual form. Empty if an earlier version has stored the failures.
    filter: String,
}

impl Group {
    /// The states of its jobs, for a link to them. They have failed, but some of them may have ended otherwise since.
    fn states(&self) -> &'static str {
        match (self.group.discarded, self.group.retrying) {
            (0, 0) => "",
            (_, 0) => "discarded",
            (0, _) => "retrying",
            _ => "discarded,retrying",
        }
    }

    /// The address of the list of its jobs in these states.
    fn jobs(&self, shell: &Shell, states: &str) -> String {
        match self.filter.as_str() {
            "" => shell.jobs("kind", &self.group.kind, states),
            filter => shell.jobs("q", filter, states),
        }
    }

    fn figure(&self, shell: &Shell, jobs: &u64, state: &str) -> Figure {
        Figure::new(format::exactly(i64::try_from(*jobs).unwrap_or(i64::MAX)), self.jobs(shell, state))
    }

    fn count(number: u64) -> String {
        format::count(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

#[derive(Template)]
#[template(path = "failures.html")]
struct FailuresPage {
    shell: Shell,
    groups: Vec<Group>,
    examined: usize,
    complete: bool,
}

/// The filter of the jobs of a group.
fn filter_of(group: &FailureGroup) -> Option<JobFilter> {
    let fingerprint = Some(group.fingerprint?);
    Some(JobFilter { kinds: vec![group.kind.clone()], fingerprint, ..JobFilter::default() })
}

pub(crate) async fn failures(visit: Visit) -> Page {
    let shell = visit.shell(Place::Failures, "Failures").await?.live("/failures", &visit.query);
    let found = visit.site.operator().failures(SHOWN).await?;
    let shown = |group: FailureGroup| {
        let subject = Subject { id: group.sample, kind: &group.kind, queue: "" };
        let message = first_line(&visit.site.redactor.shown(subject, Part::Failure, &group.message));
        let filter = filter_of(&group).map(|filter| filter.to_string()).unwrap_or_default();
        Group { message, filter, group }
    };
    let groups = found.groups.into_iter().map(shown).collect();
    render(&FailuresPage { shell, groups, examined: found.examined, complete: found.is_complete })
}
