//! Numbers of jobs that lead to a list of just these jobs.

use askama::Template;
use askama::filters::HtmlSafe;

use diesel_jobs_core::storage::QueueOverview;

use crate::format::{self, Amount};
use crate::shell::Shell;

/// A number of jobs, and the address of their list. Without jobs, it is no link.
#[derive(Template)]
#[template(path = "figure.html")]
pub(crate) struct Figure {
    jobs: Amount,
    url: String,
}

impl HtmlSafe for Figure {}

impl Figure {
    pub(crate) fn new(jobs: Amount, url: String) -> Self {
        Self { jobs, url }
    }
}

/// How long the oldest due job has waited, and the address of this job.
#[derive(Template)]
#[template(
    source = "{% if let Some(job) = job %}<a href=\"{{ job }}\">{{ waited }}</a>{% else %}{{ waited }}{% endif %}",
    ext = "html"
)]
pub(crate) struct Oldest {
    waited: String,
    job: Option<String>,
}

impl HtmlSafe for Oldest {}

impl Shell {
    /// The address of the list of the jobs that meet a filter of the page, such as `queue`, and are in one of these
    /// states, which are separated by commas. A list of all states begins with the newest jobs, and it may take long
    /// until a waiting job appears among them. So whoever knows the states names them.
    pub(crate) fn jobs(&self, filter: &str, value: &str, states: &str) -> String {
        if !states.contains(',') {
            return self.base.with("/jobs", [("state", states), (filter, value)]);
        }
        let states = format!("state:{states}");
        match filter {
            "q" => self.base.with("/jobs", [("q", format!("{value} {states}").as_str())]),
            filter => self.base.with("/jobs", [(filter, value), ("q", states.as_str())]),
        }
    }

    /// How long the oldest due job of a queue has waited, as a link to this job, whose page says why.
    pub(crate) fn oldest(&self, queue: &QueueOverview) -> Oldest {
        let job = queue.jobs.oldest.map(|job| self.link(&format!("/jobs/{job}")));
        let waited = queue.jobs.oldest_wait_seconds.map_or_else(|| "–".to_owned(), format::seconds);
        Oldest { waited, job }
    }

    /// A number of jobs as a link to [the list of them](Self::jobs).
    pub(crate) fn figure(&self, jobs: Amount, filter: &str, value: &str, states: &str) -> Figure {
        Figure::new(jobs, self.jobs(filter, value, states))
    }
}
