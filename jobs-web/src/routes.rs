//! The routes, in one table, so that a test can visit each of them.

use std::future::Future;
use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{Method, Uri};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{MethodRouter, get, post};

use crate::failure::Failure;
use crate::guard::Guard;
use crate::link::refuse_nul;
use crate::live::{self, Pages};
use crate::pages::{self, Visit};
use crate::site::Site;
use crate::{assets, confirm};

/// A route of the dashboard.
struct Route {
    /// `GET` or `POST`.
    method: &'static str,
    /// The path below the dashboard's own, as axum writes it.
    path: &'static str,
    handler: fn() -> MethodRouter<Arc<Site>>,
}

/// All routes but the event stream, which renders these.
const PAGES: &[Route] = &[
    Route { method: "GET", path: "/", handler: || page(pages::overview::overview) },
    Route { method: "GET", path: "/jobs", handler: || page(pages::jobs::jobs) },
    Route { method: "GET", path: "/jobs/{id}", handler: || page(pages::job::job) },
    Route { method: "GET", path: "/queues", handler: || page(pages::queues::queues) },
    Route { method: "GET", path: "/queues/one", handler: || page(pages::one::queue) },
    Route { method: "GET", path: "/queues/drain", handler: || page(pages::drain::drain) },
    Route { method: "GET", path: "/kinds", handler: || page(pages::kinds::kinds) },
    Route { method: "GET", path: "/kinds/one", handler: || page(pages::one::kind) },
    Route { method: "GET", path: "/limits", handler: || page(pages::limits::limits) },
    Route { method: "GET", path: "/workers", handler: || page(pages::workers::workers) },
    Route { method: "GET", path: "/schedules", handler: || page(pages::schedules::schedules) },
    Route { method: "GET", path: "/failures", handler: || page(pages::failures::failures) },
    Route { method: "GET", path: "/operations", handler: || page(pages::operations::operations) },
    Route { method: "GET", path: "/doctor", handler: || page(pages::doctor::doctor) },
    Route { method: "GET", path: "/confirm", handler: || page(confirm::ask) },
    Route { method: "POST", path: "/confirm", handler: || form(confirm::perform) },
    Route { method: "GET", path: "/help", handler: || page(pages::help::help) },
    Route { method: "GET", path: "/assets/{name}", handler: || get(assets::asset) },
];

/// The event stream.
const EVENTS: &str = "/events";

/// All routes, as pairs of method and path. For tests.
pub fn routes() -> Vec<(&'static str, &'static str)> {
    PAGES.iter().map(|route| (route.method, route.path)).chain([("GET", EVENTS)]).collect()
}

/// All routes, behind the guard.
pub(crate) fn router(site: Arc<Site>, guard: Guard) -> Router {
    let mut router = Router::new();
    for Route { path, handler, .. } in PAGES {
        router = router.route(path, handler());
    }
    let pages = guard.before(router.fallback(missing).with_state(site));
    let events = guard.before(Router::new().route(EVENTS, get(live::events)).with_state(Pages::new(pages.clone())));
    pages.merge(events)
}

/// A page that has only GET.
fn page<F, R, A>(render: F) -> MethodRouter<Arc<Site>>
where
    F: Fn(Visit) -> R + Clone + Send + Sync + 'static,
    R: Future<Output = Result<A, Failure>> + Send + 'static,
    A: IntoResponse,
{
    get(async move |visit: Visit| {
        let (site, rights) = (Arc::clone(&visit.site), visit.rights.clone());
        let answer = match refuse_nul(&visit.pairs()) {
            Ok(()) => render(visit).await,
            Err(nul) => Err(nul.into()),
        };
        match answer {
            Ok(page) => page.into_response(),
            Err(failure) => failure.answer(&site, &rights),
        }
    })
}

/// The target of a form.
fn form<F, R>(act: F) -> MethodRouter<Arc<Site>>
where
    F: Fn(Visit, Bytes) -> R + Clone + Send + Sync + 'static,
    R: Future<Output = Result<Response, Failure>> + Send + 'static,
{
    post(async move |visit: Visit, body: Bytes| {
        let (site, rights) = (Arc::clone(&visit.site), visit.rights.clone());
        act(visit, body).await.unwrap_or_else(|failure| failure.answer(&site, &rights))
    })
}

/// The page of this path without the slash at its end. Only our own pages: a path such as `//example.org/` must not
/// become a redirect to another site.
fn without_slash(path: &str) -> Option<&str> {
    let path = path.strip_suffix('/')?;
    let is_job = path.strip_prefix("/jobs/").is_some_and(|id| !id.is_empty() && id.bytes().all(|c| c.is_ascii_digit()));
    let is_page = PAGES.iter().any(|route| route.method == "GET" && route.path == path);
    match path {
        "" => Some("/"),
        path => (is_job || is_page).then_some(path),
    }
}

async fn missing(State(site): State<Arc<Site>>, method: Method, uri: Uri, visit: Visit) -> Response {
    if let Some(path) = without_slash(uri.path()).filter(|_| method == Method::GET || method == Method::HEAD) {
        let query = if visit.query.is_empty() { String::new() } else { format!("?{}", visit.query) };
        return Redirect::permanent(&format!("{}{query}", site.base.to(path))).into_response();
    }
    Failure::NotFound("There is no such page in this dashboard.".to_owned()).answer(&site, &visit.rights)
}
