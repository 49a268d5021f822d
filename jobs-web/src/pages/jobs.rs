//! The list of jobs: tabs by state, filters, and actions on a selection or on all that match.

use std::time::Duration;

use askama::Template;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use chrono::{DateTime, Utc};
use diesel_jobs_core::storage::{CONDITIONS, Condition, Count, Found, JobFilter, NotCounted, search};
use diesel_jobs_core::{JobRecord, JobState};

use super::{Visit, render};
use crate::act::Verb;
use crate::failure::Failure;
use crate::field::{Field, Mistake, fill};
use crate::filter::{self, Filter};
use crate::format::{self, Amount};
use crate::redact::Part;
use crate::shell::{Place, Shell};
use crate::site::Site;

/// A tab: the jobs of one state, or of all.
struct Tab {
    name: &'static str,
    url: String,
    here: bool,
    /// How many jobs match. `None`: they are not counted.
    count: Option<Amount>,
}

/// A job, and the beginning of what may be shown of its arguments.
struct Row {
    job: JobRecord,
    args: String,
}

#[derive(Template)]
#[template(path = "jobs.html")]
struct JobsPage {
    shell: Shell,
    /// What is wrong with the filters. Then no jobs are shown.
    mistake: Option<Mistake>,
    fields: Vec<Field>,
    conditions: &'static [Condition],
    filter: Filter,
    /// The filter in its textual form, for actions on all that match.
    text: String,
    tabs: Vec<Tab>,
    jobs: Vec<Row>,
    verbs: Vec<Verb>,
    newest: Option<String>,
    older: Option<String>,
    /// What the list says if it is not full.
    note: String,
    /// Nothing was found in the time of one page, and the script goes on with older jobs.
    searches_on: bool,
}

/// How long a page searches for jobs that match, before it shows those that it has found.
const LONGEST: Duration = Duration::from_secs(1);
/// A list for which more pages of the storage are read is not read again while it is open.
const MOST_LIVE: usize = 5;

/// What a list says if it is not full: how far it was searched.
fn note(found: &Found, is_within: bool, ascends: bool) -> String {
    match (found.not_counted, found.searched_to, found.jobs.is_empty()) {
        (None, Some(id), _) if ascends => format!("Jobs with an id above {id} were not searched yet."),
        (Some(NotCounted { age, .. }), ..) => format!(
            "No job matches among the newer ones. When all jobs were counted, {} ago, there was none of this kind.",
            format::seconds(age.as_secs_f64())
        ),
        (None, Some(id), true) => format!("No job with an id of {id} or more matches."),
        (None, Some(id), false) => format!("Jobs with an id below {id} were not searched yet."),
        (None, None, true) if is_within => "No older job matches.".to_owned(),
        (None, None, true) => "No job matches.".to_owned(),
        (None, None, false) => String::new(),
    }
}

/// The column of times: what matters of a job depends on its state.
fn time_of(job: &JobRecord) -> (&'static str, DateTime<Utc>) {
    match job.state {
        JobState::Available | JobState::Held => ("due", job.run_at),
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

/// How many jobs are in each tab. If a filter needs more than the row of a job, only the open tab is counted. A count
/// of each state would take too long.
async fn numbers(site: &Site, filter: &Filter, stored: &JobFilter) -> Result<Vec<(Option<JobState>, Count)>, Failure> {
    let operator = site.operator();
    let all = JobFilter { states: Vec::new(), ..stored.clone() };
    if all.is_costly() {
        return Ok(vec![(filter.state, operator.count(stored).await?)]);
    }
    let counts = operator.count_by_state(&all).await?;
    let sum = Count::total(counts.iter().map(|(_, count)| *count));
    Ok([(None, sum)].into_iter().chain(counts.into_iter().map(|(state, count)| (Some(state), count))).collect())
}

/// Leaves out a number that gives no information.
fn shown(count: Count) -> Option<Amount> {
    (count.jobs > 0 || count.is_exact).then(|| format::amount(count))
}

/// Reads the filters, and what the storage is asked for.
fn read(site: &Site, pairs: &[(String, String)]) -> Result<(Filter, JobFilter), Failure> {
    let filter = Filter::read(pairs)?;
    // Only the conditions can ask for arguments. The text begins with the name of one.
    let secret = |text| Mistake { field: Some("q"), text };
    let stored = site.searchable(&filter.to_storage()?).map_err(secret)?;
    Ok((filter, stored))
}

/// The form with what was written, and what is wrong with it.
async fn mistaken(visit: &Visit, pairs: &[(String, String)], mistake: Mistake) -> Result<Response, Failure> {
    let mut fields = filter::fields(&*visit.site.known().await);
    fill(&mut fields, pairs, Some(&mistake));
    let state = pairs.iter().find(|(name, _)| name == "state").and_then(|(_, state)| state.parse().ok());
    let page = render(&JobsPage {
        shell: visit.shell(Place::Jobs, "Jobs").await?,
        mistake: Some(mistake),
        fields,
        conditions: &CONDITIONS,
        filter: Filter::default().with_state(state),
        text: String::new(),
        tabs: Vec::new(),
        jobs: Vec::new(),
        verbs: Vec::new(),
        newest: None,
        older: None,
        note: String::new(),
        searches_on: false,
    })?;
    Ok((StatusCode::BAD_REQUEST, page).into_response())
}

pub(crate) async fn jobs(visit: Visit) -> Result<Response, Failure> {
    let pairs = filter::with_conditions(visit.pairs());
    let (filter, stored) = match read(&visit.site, &pairs) {
        Ok(read) => read,
        Err(Failure::Mistake(mistake)) => return mistaken(&visit, &pairs, mistake).await,
        Err(failure) => return Err(failure),
    };
    let mut shell = visit.shell(Place::Jobs, "Jobs").await?;
    let paging = filter.paging();
    let found = search(visit.site.operator(), &stored, paging, LONGEST).await?;
    let is_full = found.jobs.len() >= paging.limit;
    let searches_on = found.jobs.is_empty() && found.searched_to.is_some() && found.not_counted.is_none();
    if found.pages <= MOST_LIVE && !searches_on {
        shell = shell.live("/jobs", &visit.query);
    }
    let numbers = if searches_on { Vec::new() } else { numbers(&visit.site, &filter, &stored).await? };
    let link =
        |query: String| if query.is_empty() { shell.link("/jobs") } else { format!("{}?{query}", shell.link("/jobs")) };
    let mut tabs = Vec::new();
    for state in [None].into_iter().chain(JobState::ALL.map(Some)) {
        let url = link(filter.with_state(state).query());
        let count = numbers.iter().find(|(of, _)| *of == state).and_then(|(_, count)| shown(*count));
        let here = filter.state == state && (state.is_some() || stored.states.is_empty());
        tabs.push(Tab { name: state.map_or("all", JobState::as_str), url, here, count });
    }
    let row = |mut job: JobRecord| {
        visit.site.redact_failure(&mut job);
        let is_hidden = visit.site.redactor.hides_all(&job.kind) || job.args == "{}";
        let args = if is_hidden { String::new() } else { visit.site.shown(&job, Part::Arguments, &job.args) };
        Row { args: first_line(&args.split_whitespace().collect::<Vec<_>>().join(" ")), job }
    };
    let verbs = Verb::ALL.into_iter().filter(|verb| shell.may(verb.right())).filter(|verb| match filter.state {
        Some(state) => verb.applies_to(state),
        None => true,
    });
    let verbs = verbs.collect();
    let newest = filter.is_within().then(|| link(filter.query()));
    let behind = if paging.ascends() { found.jobs.last().map(|job| job.id) } else { found.searched_to };
    let older = behind.map(|id| link(filter.query_of("before", id)));
    let note = if is_full { String::new() } else { note(&found, filter.is_within(), paging.ascends()) };
    let text = stored.to_string();
    let mut fields = filter::fields(&*visit.site.known().await);
    fill(&mut fields, &pairs, None);
    let page = JobsPage {
        shell,
        mistake: None,
        fields,
        conditions: &CONDITIONS,
        filter,
        text,
        tabs,
        jobs: found.jobs.into_iter().map(row).collect(),
        verbs,
        newest,
        older,
        note,
        searches_on,
    };
    Ok(render(&page)?.into_response())
}

#[cfg(test)]
mod tests {
    use diesel_jobs_core::JobId;

    use super::*;

    #[test]
    fn a_list_that_is_not_full_says_how_far_it_was_searched() {
        let found = |searched_to, not_counted| Found { jobs: Vec::new(), pages: 1, searched_to, not_counted };
        let (id, age) = (JobId(7000), Duration::from_secs(90));
        assert_eq!(note(&found(Some(id), None), false, false), "No job with an id of 7000 or more matches.");
        let not_counted = NotCounted { searched_to: id, age };
        let text = note(&found(Some(id), Some(not_counted)), false, false);
        assert!(text.contains("When all jobs were counted, 90 s ago, there was none of this kind."), "{text}");
        assert_eq!(note(&found(None, None), false, false), "No job matches.");
        assert_eq!(note(&found(None, None), true, false), "No older job matches.");
        assert_eq!(note(&found(Some(id), None), true, true), "Jobs with an id above 7000 were not searched yet.");
    }
}
