//! What is answered when a page cannot be shown.

use askama::Template;
use axum::http::StatusCode;
use axum::response::{Html, IntoResponse, Response};
use chrono::{DateTime, Utc};
use diesel_jobs_core::{Installation, StorageError};

use crate::field::Mistake;
use crate::format;
use crate::link::Nul;
use crate::rights::{Action, Rights};
use crate::sample::Sample;
use crate::shell::{Place, Shell};
use crate::site::Site;

/// Why a page cannot be shown.
#[derive(Debug)]
pub(crate) enum Failure {
    /// There is no such page, job, queue, ..
    NotFound(String),
    /// The request is not understood. The text says what is allowed.
    Malformed(String),
    /// A form has a mistake. It is shown again.
    Mistake(Mistake),
    /// The sender may not do this.
    Forbidden(Action),
    /// The database takes no writes, for this reason.
    ReadOnly(&'static str),
    /// The storage failed.
    Storage(StorageError),
    /// The page could not be rendered.
    Template(askama::Error),
}

impl From<Mistake> for Failure {
    fn from(mistake: Mistake) -> Self {
        Self::Mistake(mistake)
    }
}

impl From<Nul> for Failure {
    fn from(nul: Nul) -> Self {
        Self::Malformed(nul.to_string())
    }
}

impl From<StorageError> for Failure {
    fn from(error: StorageError) -> Self {
        Self::Storage(error)
    }
}

impl From<askama::Error> for Failure {
    fn from(error: askama::Error) -> Self {
        Self::Template(error)
    }
}

/// What a page returns.
pub(crate) type Page = Result<Html<String>, Failure>;

#[derive(Template)]
#[template(path = "failure.html")]
struct FailurePage {
    shell: Shell,
    heading: &'static str,
    text: String,
    advice: &'static str,
    last: Option<(DateTime<Utc>, Sample)>,
}

impl Failure {
    /// Status, heading, text and advice.
    fn parts(&self) -> (StatusCode, &'static str, String, &'static str) {
        match self {
            Self::NotFound(what) => (StatusCode::NOT_FOUND, "Not found", what.clone(), ""),
            Self::Malformed(what) | Self::Mistake(Mistake { text: what, .. }) => {
                (StatusCode::BAD_REQUEST, "Not understood", what.clone(), "")
            }
            Self::Forbidden(action) => (
                StatusCode::FORBIDDEN,
                "Not allowed",
                format!("You may not do this: your rights do not include “{action}”."),
                "The application that serves this dashboard decides who may do what.",
            ),
            Self::ReadOnly(why) => (
                StatusCode::CONFLICT,
                "Read-only database",
                format!("{why} Nothing was changed."),
                "Open the dashboard of a server that takes writes.",
            ),
            // What the storage refuses before it asks the database: a name or a number that cannot be stored.
            Self::Storage(StorageError::Config(what)) => (StatusCode::BAD_REQUEST, "Not understood", what.clone(), ""),
            Self::Storage(error @ (StorageError::Unavailable(_) | StorageError::Credentials(_))) => (
                StatusCode::SERVICE_UNAVAILABLE,
                "The database cannot be reached",
                error.to_string(),
                "The page tries again by itself. Jobs continue as soon as workers reach the database.",
            ),
            Self::Storage(error @ StorageError::Schema(_)) => {
                (StatusCode::SERVICE_UNAVAILABLE, "The schema is another one", error.to_string(), "")
            }
            Self::Storage(error) => (
                StatusCode::INTERNAL_SERVER_ERROR,
                "The database refused",
                error.to_string(),
                "The server's log also has this message.",
            ),
            Self::Template(problem) => (
                StatusCode::INTERNAL_SERVER_ERROR,
                "The page could not be rendered",
                problem.to_string(),
                "This is a fault of the dashboard.",
            ),
        }
    }

    /// The answer to the browser. Failures of the server are logged.
    pub(crate) fn answer(self, site: &Site, rights: &Rights) -> Response {
        let (status, heading, text, advice) = self.parts();
        if status.is_server_error() {
            tracing::warn!(target: "diesel_jobs", { problem = ?self, http.status = status.as_u16() }, "a page of the dashboard failed");
        }
        let shell = Shell::new(site, rights, Installation::default(), Place::Nowhere, heading);
        // What the storage refuses as malformed says nothing about the database.
        let is_unknown = status.is_server_error() && matches!(self, Self::Storage(_));
        let last = is_unknown.then(|| site.remembered()).flatten();
        match (FailurePage { shell, heading, text, advice, last }).render() {
            Ok(page) => (status, Html(page)).into_response(),
            Err(problem) => {
                tracing::error!(target: "diesel_jobs", { %problem }, "the page of a failure could not be rendered");
                (StatusCode::INTERNAL_SERVER_ERROR, heading).into_response()
            }
        }
    }
}
