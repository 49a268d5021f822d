//! Failures in groups: those of one kind with the same text, apart from numbers and ids.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use askama::Template;
use chrono::TimeDelta;
use diesel_jobs_core::storage::{Count, FailureGroup, Failures, JobFilter, StorageResult};
use diesel_jobs_core::{AttemptError, FailureKind, JobRecord, JobState};

use super::jobs::first_line;
use super::{Visit, render};
use crate::failure::Page;
use crate::figure::Figure;
use crate::format::{self, Amount};
use crate::redact::{Part, Subject};
use crate::rights::Action;
use crate::shell::{Place, Shell};
use crate::site::Site;

/// This many groups are shown.
const SHOWN: usize = 100;
/// This many groups are read to find those that failed in the last hour.
const READ: usize = 1000;
/// This many groups are on the overview.
const NEWEST: usize = 5;
/// The states of jobs that have failed and did not complete since.
const FAILED: [JobState; 2] = [JobState::Discarded, JobState::Retrying];
/// The overview reads failures again in the background after the first time, and shows none that are older than the
/// second one.
const KEPT: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(60));

/// A group, and what the pages show of it.
pub(super) struct Group {
    pub(super) group: FailureGroup,
    pub(super) message: String,
    /// The whole text, if `message` is only its beginning.
    pub(super) whole: Option<String>,
    /// The filter of its jobs, in its textual form. Empty if an earlier version has stored the failures.
    pub(super) filter: String,
    /// Whether all stored failures were examined, and all of the last hour.
    is_complete: bool,
    has_hour: bool,
    /// The first failure is of the last hour, and there was none in the hours before.
    pub(super) is_new: bool,
}

impl Group {
    fn of(site: &Site, shell: &Shell, found: &Failures, group: FailureGroup) -> Self {
        let subject = Subject { id: group.sample, kind: &group.kind, queue: &group.queue };
        let whole = site.redactor.shown(subject, Part::Failure, &group.message);
        let message = first_line(&whole);
        let hour_ago = shell.now - TimeDelta::hours(1);
        Self {
            whole: Some(whole).filter(|whole| *whole != message),
            message,
            filter: group.fingerprint.map(|known| alike(&group.kind, known).to_string()).unwrap_or_default(),
            is_complete: found.is_complete,
            has_hour: found.has_all_since(hour_ago),
            is_new: group.first_at >= hour_ago && found.has_all_since(shell.now - TimeDelta::days(1)),
            group,
        }
    }

    /// The id of its whole text on the page. It stays the same while more jobs fail.
    pub(super) fn anchor(&self) -> String {
        let fingerprint = self.group.fingerprint.unwrap_or_default();
        format!("text-{fingerprint}-{}", self.group.first_at.timestamp_micros())
    }

    /// The states of its jobs, for a link to them. They have failed, but some of them may have ended otherwise since.
    pub(super) fn states(&self) -> &'static str {
        match (self.group.discarded, self.group.retrying) {
            (0, 0) => "",
            (_, 0) => "discarded",
            (0, _) => "retrying",
            _ => "discarded,retrying",
        }
    }

    /// Whether there are jobs that can be retried.
    pub(super) fn can_retry(&self) -> bool {
        !self.filter.is_empty() && self.group.discarded + self.group.retrying > 0
    }

    /// The address of the list of its jobs in these states.
    pub(super) fn jobs(&self, shell: &Shell, states: &str) -> String {
        match self.filter.as_str() {
            "" => shell.jobs("kind", &self.group.kind, states),
            filter => shell.jobs("q", filter, states),
        }
    }

    pub(super) fn failures(&self, number: &u64) -> Amount {
        format::examined(number, self.is_complete)
    }

    pub(super) fn last_hour(&self) -> Amount {
        format::examined(self.group.last_hour, self.has_hour)
    }

    pub(super) fn figure(&self, shell: &Shell, jobs: &u64, state: &str) -> Figure {
        Figure::new(self.failures(jobs), self.jobs(shell, state))
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

/// The filter of the jobs of a kind whose newest failure is alike.
fn alike(kind: &str, fingerprint: i64) -> JobFilter {
    JobFilter { kinds: vec![kind.to_owned()], fingerprint: Some(fingerprint), ..JobFilter::default() }
}

/// How many other jobs failed like this one and did not complete since, and the address of their list. `None` if there
/// are none, or if this job has not failed.
pub(super) async fn others_like(
    site: &Site,
    shell: &Shell,
    job: &JobRecord,
    errors: &[AttemptError],
) -> StorageResult<Option<Figure>> {
    let failure = errors.last().filter(|newest| !FailureKind::WITHOUT_FAILURE.contains(&newest.kind));
    let Some(fingerprint) = failure.and_then(|failure| failure.fingerprint) else { return Ok(None) };
    if !FAILED.contains(&job.state) {
        return Ok(None);
    }
    let kind = site.redactor.present_name(&job.kind);
    let mut filter = alike(kind, fingerprint);
    let url = shell.jobs("q", &filter.to_string(), "discarded,retrying");
    filter.states = FAILED.to_vec();
    // It asks for no arguments, so nothing hidden can be guessed with it.
    let Ok(filter) = site.searchable(&filter) else { return Ok(None) };
    let Count { jobs, is_exact } = site.operator().count(&filter).await?;
    let others = jobs.saturating_sub(1);
    Ok((others > 0).then(|| Figure::new(format::examined(others, is_exact), url)))
}

/// Puts the groups of all names of a kind together.
fn by_present_name(site: &Site, groups: Vec<FailureGroup>) -> Vec<FailureGroup> {
    let (mut merged, mut places) = (Vec::<FailureGroup>::new(), HashMap::new());
    for mut group in groups {
        group.kind = site.redactor.present_name(&group.kind).to_owned();
        // Without a fingerprint the text makes the group.
        let place = match group.fingerprint {
            Some(fingerprint) => *places.entry((group.kind.clone(), fingerprint)).or_insert(merged.len()),
            None => merged.len(),
        };
        match merged.get_mut(place) {
            Some(known) => known.add(group),
            None => merged.push(group),
        }
    }
    merged
}

pub(crate) async fn failures(visit: Visit) -> Page {
    let shell = visit.shell(Place::Failures, "Failures").await?.live("/failures", &visit.query);
    let mut found = visit.site.operator().failures(SHOWN).await?;
    let groups = by_present_name(&visit.site, std::mem::take(&mut found.groups));
    let groups = groups.into_iter().map(|group| Group::of(&visit.site, &shell, &found, group)).collect();
    render(&FailuresPage { shell, groups, examined: found.examined, complete: found.is_complete })
}

/// The groups with the most failures in the last hour, of these kinds if there are any, and how many others there are.
pub(super) async fn newest(site: &Site, shell: &Shell, kinds: &[String]) -> StorageResult<(Vec<Group>, usize)> {
    let operator = Arc::clone(site.shared_operator());
    let read = async move { operator.failures(READ).await.map(Arc::new) };
    let found = site.failures.recent((), KEPT, read).await?;
    let is_meant = |group: &&FailureGroup| kinds.is_empty() || kinds.contains(&group.kind);
    let mut groups = by_present_name(site, found.groups.iter().filter(is_meant).cloned().collect());
    groups.retain(|group| group.last_hour > 0);
    groups.sort_by_key(|group| std::cmp::Reverse((group.last_hour, group.last_at)));
    let others = groups.len().saturating_sub(NEWEST);
    let shown = groups.into_iter().take(NEWEST).map(|group| Group::of(site, shell, &found, group));
    Ok((shown.collect(), others))
}
