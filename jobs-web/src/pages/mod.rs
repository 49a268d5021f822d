//! The pages: one file each.

pub(crate) mod doctor;
pub(crate) mod drain;
pub(crate) mod failures;
pub(crate) mod help;
pub(crate) mod job;
pub(crate) mod jobs;
pub(crate) mod kinds;
pub(crate) mod limits;
pub(crate) mod one;
pub(crate) mod operations;
pub(crate) mod overview;
pub(crate) mod queues;
mod ranges;
pub(crate) mod schedules;
pub(crate) mod workers;

use std::convert::Infallible;
use std::sync::Arc;

use askama::Template;
use axum::extract::{FromRequestParts, RawPathParams};
use axum::http::request::Parts;
use axum::response::Html;

use crate::failure::{Failure, Page};
use crate::link;
use crate::rights::Rights;
use crate::shell::{Place, Shell};
use crate::site::Site;

/// A request of a user who may read the dashboard.
pub(crate) struct Visit {
    pub(crate) site: Arc<Site>,
    pub(crate) rights: Rights,
    /// The query as it was sent.
    pub(crate) query: String,
    params: Vec<(String, String)>,
}

impl FromRequestParts<Arc<Site>> for Visit {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, site: &Arc<Site>) -> Result<Self, Infallible> {
        // The guard has put the rights there. Without them there are none.
        let rights = parts.extensions.get::<Rights>().cloned().unwrap_or(Rights::none());
        let query = parts.uri.query().unwrap_or_default().to_owned();
        // A parameter that is no UTF-8 is missing, and so not found.
        let params = RawPathParams::from_request_parts(parts, site).await.map_or_else(
            |_| Vec::new(),
            |params| params.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
        );
        Ok(Self { site: Arc::clone(site), rights, query, params })
    }
}

impl Visit {
    /// The pairs of the query.
    pub(crate) fn pairs(&self) -> Vec<(String, String)> {
        link::decode(&self.query)
    }

    /// A parameter of the path. Empty if there is none.
    pub(crate) fn param(&self, name: &str) -> &str {
        self.params.iter().find(|(param, _)| param == name).map_or("", |(_, value)| value.as_str())
    }

    /// The frame of the page. Fails if the database cannot be reached.
    pub(crate) async fn shell(&self, place: Place, title: &str) -> Result<Shell, Failure> {
        Ok(Shell::new(&self.site, &self.rights, self.site.installation().await?, place, title))
    }
}

/// Renders a template.
pub(crate) fn render(template: &impl Template) -> Page {
    Ok(Html(template.render()?))
}
