//! Numbers of jobs that lead to a list of just these jobs.

use askama::Template;
use askama::filters::HtmlSafe;

use crate::format::Amount;
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

    /// A number of jobs as a link to [the list of them](Self::jobs).
    pub(crate) fn figure(&self, jobs: Amount, filter: &str, value: &str, states: &str) -> Figure {
        Figure::new(jobs, self.jobs(filter, value, states))
    }
}
