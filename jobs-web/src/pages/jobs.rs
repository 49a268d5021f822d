//! The list of jobs: tabs by state, filters, and actions on a selection.

use askama::Template;
use diesel_jobs_core::{JobRecord, JobState};

use super::{Visit, render};
use crate::failure::Page;
use crate::filter::{Filter, PAGE};
use crate::format;
use crate::rights::Action;
use crate::shell::{Place, Shell};

/// A tab: the jobs of one state, or of all.
struct Tab {
    name: &'static str,
    url: String,
    here: bool,
}

#[derive(Template)]
#[template(path = "jobs.html")]
struct JobsPage {
    shell: Shell,
    filter: Filter,
    tabs: Vec<Tab>,
    jobs: Vec<JobRecord>,
    more: bool,
}

impl JobsPage {
    fn can_act(&self) -> bool {
        self.shell.may(Action::Retry) || self.shell.may(Action::Cancel)
    }
}

/// The column of times: what matters of a job depends on its state.
fn time_of(job: &JobRecord) -> (&'static str, chrono::DateTime<chrono::Utc>) {
    match job.state {
        JobState::Available => ("due", job.run_at),
        JobState::Running => ("started", job.claimed_at.unwrap_or(job.run_at)),
        JobState::Completed | JobState::Cancelled | JobState::Discarded => {
            ("ended", job.finished_at.unwrap_or(job.run_at))
        }
        _ => ("runs", job.run_at),
    }
}

/// The first line of an error, not too long.
pub(crate) fn first_line(text: &str) -> String {
    const LONGEST: usize = 160;
    let line = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    match line.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_owned(),
    }
}

pub(crate) async fn jobs(visit: Visit) -> Page {
    let filter = Filter::read(&visit.pairs())?;
    let shell = visit.shell(Place::Jobs, "Jobs").await?.live("/jobs", &visit.query);
    let mut jobs = visit.site.operator().list(&filter.to_storage(PAGE + 1)).await?;
    let more = jobs.len() > PAGE;
    jobs.truncate(PAGE);
    let tab = |name, state| {
        let url = filter.with_state(state).query();
        let url = if url.is_empty() { shell.link("/jobs") } else { format!("{}?{url}", shell.link("/jobs")) };
        Tab { name, url, here: filter.state == state }
    };
    let mut tabs = vec![tab("all", None)];
    tabs.extend(JobState::ALL.map(|state| tab(state.as_str(), Some(state))));
    for job in &mut jobs {
        visit.site.redact_failure(job);
    }
    render(&JobsPage { shell, filter, tabs, jobs, more })
}
