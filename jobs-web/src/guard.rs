//! The checks before every route: the rights of the sender, the refusal of requests from other sites, and the headers of each answer.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use futures_util::future::BoxFuture;
use tower_http::csrf::CsrfLayer;

use crate::rights::Rights;

/// The application's callback.
pub(crate) type Callback = Box<dyn Fn(&Parts) -> BoxFuture<'static, Rights> + Send + Sync>;

pub(crate) struct Guard {
    rights: Arc<Callback>,
    csrf: CsrfLayer,
}

/// Nothing may be loaded or sent anywhere, except from and to the dashboard's own origin. There is no inline style and script.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

const HEADERS: [(HeaderName, &str); 6] = [
    (header::CONTENT_SECURITY_POLICY, POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    // With `no-referrer` browsers would not send the origin of a form.
    (header::REFERRER_POLICY, "same-origin"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

impl Guard {
    pub(crate) fn new(rights: Callback, origins: &[String]) -> Self {
        let csrf = origins.iter().fold(CsrfLayer::new(), |layer, origin| {
            layer.clone().add_trusted_origin(origin).unwrap_or_else(|problem| {
                tracing::error!(target: "diesel_jobs", { %origin, %problem }, "the dashboard ignores an origin that is none: write it as https://ops.example.org");
                layer
            })
        });
        Self { rights: Arc::new(rights), csrf }
    }

    /// Puts the guard before all routes of the router, and before its fallback.
    pub(crate) fn before(&self, router: Router) -> Router {
        router
            .layer(from_fn_with_state(Arc::clone(&self.rights), admit))
            .layer(self.csrf.clone())
            .layer(from_fn(headers))
    }
}

/// Asks for the rights of the sender, and refuses the request without the right to read.
async fn admit(State(rights): State<Arc<Callback>>, mut request: Request, next: Next) -> Response {
    let (parts, body) = request.into_parts();
    let granted = rights(&parts).await;
    if !granted.may_read() {
        return (StatusCode::FORBIDDEN, "you may not see this dashboard\n").into_response();
    }
    request = Request::from_parts(parts, body);
    request.extensions_mut().insert(granted);
    next.run(request).await
}

async fn headers(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    for (name, value) in HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    // Only the assets set this header themselves.
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}
