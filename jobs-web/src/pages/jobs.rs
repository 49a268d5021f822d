//! The list of jobs: tabs by state, filters, and actions on a selection or on all that match.

use askama::Template;
use chrono::{DateTime, Utc};
use diesel_jobs_core::storage::{Count, Operator};
use diesel_jobs_core::{JobRecord, JobState};

use super::{Visit, render};
use crate::act::Verb;
use crate::failure::{Failure, Page};
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

/// How many jobs stand in each tab. A filter that needs more than the row of a job is counted for the open tab only, because a count of
/// each state would take too long.
async fn numbers(operator: &dyn Operator, filter: &Filter) -> Result<Vec<(Option<JobState>, Count)>, Failure> {
    let all = filter.with_state(None).to_storage()?;
    if all.is_costly() || !all.states.is_empty() {
        return Ok(vec![(filter.state, operator.count(&filter.to_storage()?).await?)]);
    }
    let counts = operator.count_by_state(&all).await?;
    let sum = Count::total(counts.iter().map(|(_, count)| *count));
    Ok([(None, sum)].into_iter().chain(counts.into_iter().map(|(state, count)| (Some(state), count))).collect())
}

/// A number that says nothing is left out.
fn shown(count: Count) -> String {
    if count.jobs == 0 && !count.is_exact { String::new() } else { count.to_string() }
}

pub(crate) async fn jobs(visit: Visit) -> Page {
    let filter = Filter::read(&visit.pairs())?;
    let stored = filter.to_storage()?;
    visit.site.check_search(&stored).map_err(Failure::Malformed)?;
    let shell = visit.shell(Place::Jobs, "Jobs").await?.live("/jobs", &visit.query);
    let operator = visit.site.operator();
    let mut page = operator.list(&stored, filter.paging()).await?;
    let numbers = numbers(operator, &filter).await?;
    let mut tabs = Vec::new();
    for state in [None].into_iter().chain(JobState::ALL.map(Some)) {
        let query = filter.with_state(state).query();
        let url = if query.is_empty() { shell.link("/jobs") } else { format!("{}?{query}", shell.link("/jobs")) };
        let count = numbers.iter().find(|(of, _)| *of == state).map(|(_, count)| shown(*count)).unwrap_or_default();
        tabs.push(Tab { name: state.map_or("all", JobState::as_str), url, here: filter.state == state, count });
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
