//! The checks before every route: the rights of the sender, the refusal of requests from other sites, and the headers
//! of each answer.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use futures_util::future::BoxFuture;
use tower_http::csrf::CsrfLayer;

use crate::rights::Rights;

/// The application's callback.
pub(crate) type Callback = Box<dyn Fn(&Parts) -> BoxFuture<'static, Rights> + Send + Sync>;

pub(crate) struct Guard {
    rights: Arc<Callback>,
    csrf: CsrfLayer,
    headers: Vec<(HeaderName, HeaderValue)>,
}

/// Nothing may be loaded or sent anywhere, except from and to the dashboard's own origin. There is no inline style and
/// script. The last part says who may show a page in a frame.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      form-action 'self'; base-uri 'none'; frame-ancestors";

const HEADERS: [(HeaderName, &str); 4] = [
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    // With `no-referrer` browsers would not send the origin of a form.
    (header::REFERRER_POLICY, "same-origin"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

/// The headers of each answer.
fn headers_of(ancestors: &[String]) -> Vec<(HeaderName, HeaderValue)> {
    let ancestors = ancestors.iter().filter(|ancestor| {
        let is_origin = is_ancestor(ancestor);
        if !is_origin {
            tracing::error!(target: "diesel_jobs", { %ancestor }, "the dashboard ignores an ancestor of its frames that is none: write it as https://ops.example.org, or 'self'");
        }
        is_origin
    });
    let ancestors = ancestors.map(String::as_str).collect::<Vec<_>>().join(" ");
    let mut headers: Vec<_> =
        HEADERS.into_iter().map(|(name, value)| (name, HeaderValue::from_static(value))).collect();
    if ancestors.is_empty() {
        // This header can name no other origin. Browsers that know `frame-ancestors` ignore it.
        headers.push((header::X_FRAME_OPTIONS, HeaderValue::from_static("DENY")));
    }
    let policy = format!("{POLICY} {}", if ancestors.is_empty() { "'none'" } else { &ancestors });
    // An ancestor has no characters that a header may not have.
    headers.extend(HeaderValue::try_from(policy).ok().map(|policy| (header::CONTENT_SECURITY_POLICY, policy)));
    headers
}

/// Whether this is `'self'`, or the scheme and host of an origin, without anything that would end the policy's part.
/// The first label of the host may be `*`.
pub fn is_ancestor(text: &str) -> bool {
    let Some((scheme, host)) = text.split_once("://") else { return text == "'self'" };
    let is_host = |c: char| c.is_ascii_alphanumeric() || "*.-_:[]".contains(c);
    ["http", "https"].contains(&scheme) && !host.is_empty() && host.chars().all(is_host)
}

impl Guard {
    pub(crate) fn new(rights: Callback, origins: &[String], ancestors: &[String]) -> Self {
        let csrf = origins.iter().fold(CsrfLayer::new(), |layer, origin| {
            layer.clone().add_trusted_origin(origin).unwrap_or_else(|problem| {
                tracing::error!(target: "diesel_jobs", { %origin, %problem }, "the dashboard ignores an origin that is none: write it as https://ops.example.org");
                layer
            })
        });
        Self { rights: Arc::new(rights), csrf, headers: headers_of(ancestors) }
    }

    /// Puts the guard before all routes of the router, and before its fallback.
    pub(crate) fn before(&self, router: Router) -> Router {
        router
            .layer(from_fn_with_state(Arc::clone(&self.rights), admit))
            .layer(self.csrf.clone())
            .layer(from_fn_with_state(self.headers.clone().into(), headers))
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

async fn headers(State(headers): State<Arc<[(HeaderName, HeaderValue)]>>, request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    for (name, value) in headers.iter() {
        response.headers_mut().insert(name, value.clone());
    }
    // Only the assets set this header themselves.
    response.headers_mut().entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(ancestors: &[&str]) -> (String, bool) {
        let headers = headers_of(&ancestors.iter().map(ToString::to_string).collect::<Vec<_>>());
        let value = |wanted: HeaderName| headers.iter().find(|(name, _)| *name == wanted).map(|(_, value)| value);
        let policy = value(header::CONTENT_SECURITY_POLICY).unwrap().to_str().unwrap();
        let (_, ancestors) = policy.split_once("frame-ancestors ").unwrap();
        (ancestors.to_owned(), value(header::X_FRAME_OPTIONS).is_some())
    }

    #[test]
    fn only_named_origins_may_show_a_page_in_a_frame() {
        assert_eq!(policy(&[]), ("'none'".to_owned(), true));
        assert_eq!(policy(&["https://ops.example.org"]), ("https://ops.example.org".to_owned(), false));
        let several = ["'self'", "http://localhost:3000", "https://*.example.org", "https://[::1]:8443"];
        assert_eq!(policy(&several), (several.join(" "), false));
    }

    #[test]
    fn what_is_no_origin_changes_nothing() {
        for wrong in [
            "",
            "*",
            "self",
            "ops.example.org",
            "ftp://x.org",
            "https://",
            "https://x.org/path",
            "https://x.org; script-src *",
            "https://x.org y.org",
            "https://x.org\r\nx: y",
        ] {
            assert_eq!(policy(&[wrong]), ("'none'".to_owned(), true), "{wrong}");
            assert_eq!(policy(&[wrong, "https://y.org"]), ("https://y.org".to_owned(), false), "{wrong}");
        }
    }
}
