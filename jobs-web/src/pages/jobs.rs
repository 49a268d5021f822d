//! The list of jobs: tabs by state, filters, and actions on a selection or on all that match.

use askama::Template;
use chrono::{DateTime, Utc};
use diesel_jobs_core::{JobRecord, JobState};

use super::{Visit, render};
use crate::act::Verb;
use crate::failure::Page;
use crate::filter::Filter;
use crate::format;
use crate::shell::{Place, Shell};

/// A tab: the jobs of one state, or of all.
struct Tab {
    name: &'static str,
    url: String,
    here: bool,
    /// How many jobs match. Empty: they are not counted.
    count: String,
}

#[derive(Template)]
#[template(path = "jobs.html")]
struct JobsPage {
    shell: Shell,
    filter: Filter,
    /// The filter in its textual form, for actions on all that match.
    text: String,
    tabs: Vec<Tab>,
    jobs: Vec<JobRecord>,
    verbs: Vec<Verb>,
    newest: Option<String>,
    older: Option<String>,
}

/// The column of times: what matters of a job depends on its state.
fn time_of(job: &JobRecord) -> (&'static str, DateTime<Utc>) {
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
    let stored = filter.to_storage()?;
    let shell = visit.shell(Place::Jobs, "Jobs").await?.live("/jobs", &visit.query);
    let operator = visit.site.operator();
    let mut page = operator.list(&stored, filter.paging()).await?;
    let mut tabs = Vec::new();
    for state in [None].into_iter().chain(JobState::ALL.map(Some)) {
        let query = filter.with_state(state).query();
        let url = if query.is_empty() { shell.link("/jobs") } else { format!("{}?{query}", shell.link("/jobs")) };
        // Only the tab that is open is counted: a count of each would take seven times as long.
        let here = filter.state == state;
        let count = if here { operator.count(&stored).await?.to_string() } else { String::new() };
        tabs.push(Tab { name: state.map_or("all", JobState::as_str), url, here, count });
    }
    for job in &mut page.jobs {
        visit.site.redact_failure(job);
    }
    let verbs = Verb::ALL.into_iter().filter(|verb| shell.may(verb.right())).filter(|verb| match filter.state {
        Some(state) => verb.applies_to(state),
        None => true,
    });
    let verbs = verbs.collect();
    let link =
        |query: String| if query.is_empty() { shell.link("/jobs") } else { format!("{}?{query}", shell.link("/jobs")) };
    let newest = filter.is_within().then(|| link(filter.query()));
    let older = page.searched_to.map(|id| link(filter.query_of("before", id)));
    let text = stored.to_string();
    render(&JobsPage { shell, text, tabs, jobs: page.jobs, verbs, newest, older, filter })
}
