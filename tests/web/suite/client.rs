//! A client that calls the router directly, and the rights that it names in a header.

use std::sync::Arc;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, Request, StatusCode, header};
use diesel_jobs::Database;
use diesel_jobs::worker::Registry;
use diesel_jobs_web::{Action, Dashboard, Rights};
use tower::ServiceExt as _;

use crate::html::Page;
use crate::jobs::registry;

/// Where the tests nest the dashboard.
pub(crate) const PREFIX: &str = "/admin/jobs";

/// A client with rights.
#[derive(Clone)]
pub(crate) struct Client {
    router: Arc<Router>,
    rights: &'static str,
}

/// What was answered.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: String,
}

/// `none`, `read`, `all`, or the name of one action.
fn rights(parts: &Parts) -> Rights {
    let name = parts.headers.get("x-rights").map_or("none", |value| value.to_str().unwrap());
    match name {
        "none" => Rights::none(),
        "read" => Rights::read_only("ada"),
        "all" => Rights::everything("ada"),
        name => {
            let action = Action::ALL.into_iter().find(|action| action.as_str() == name).unwrap();
            Rights::read_only("ada").allow(action)
        }
    }
}

/// The dashboard of the tests, before it is a router.
pub(crate) fn dashboard(database: Database, registry: Registry) -> Dashboard {
    Dashboard::new(database).at(PREFIX).registry(registry).rights(|parts| std::future::ready(rights(parts)))
}

impl Client {
    /// A client of a dashboard of this database, with all rights.
    pub(crate) fn of(database: &Database) -> Self {
        Self::on(dashboard(database.clone(), registry()))
    }

    pub(crate) fn on(dashboard: Dashboard) -> Self {
        let router = Router::new().nest_service(PREFIX, dashboard.router());
        Self { router: Arc::new(router), rights: "all" }
    }

    /// The same client with other rights.
    pub(crate) fn with_rights(&self, rights: &'static str) -> Self {
        Self { rights, ..self.clone() }
    }

    pub(crate) async fn send(&self, method: Method, path: &str, body: &str, headers: &[(&str, &str)]) -> Answer {
        let response = self.begin(method, path, body, headers).await;
        let (head, body) = response.into_parts();
        let body = to_bytes(body, usize::MAX).await.unwrap();
        Answer { status: head.status, headers: head.headers, body: String::from_utf8(body.into()).unwrap() }
    }

    /// The response, whose body may never end.
    pub(crate) async fn begin(
        &self,
        method: Method,
        path: &str,
        body: &str,
        headers: &[(&str, &str)],
    ) -> axum::response::Response {
        let mut request = Request::builder()
            .method(method)
            .uri(format!("{PREFIX}{path}"))
            .header(header::HOST, "jobs.example")
            .header("x-rights", self.rights);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Body::from(body.to_owned())).unwrap();
        Router::clone(&self.router).oneshot(request).await.unwrap()
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send(Method::GET, path, "", &[]).await
    }

    /// A page that must be answered, and be well-formed.
    pub(crate) async fn page(&self, path: &str) -> Page {
        let answer = self.get(path).await;
        assert_eq!(answer.status, StatusCode::OK, "{path}: {}", answer.body);
        answer.page()
    }

    /// Sends a form, as a page of the dashboard does.
    pub(crate) async fn post(&self, path: &str, form: &str) -> Answer {
        let headers = [("sec-fetch-site", "same-origin"), ("content-type", "application/x-www-form-urlencoded")];
        self.send(Method::POST, path, form, &headers).await
    }
}

impl Answer {
    /// The parsed page.
    pub(crate) fn page(&self) -> Page {
        Page::parse(&self.body)
    }
}
