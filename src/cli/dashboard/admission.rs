//! Who may use the dashboard that the bundled worker serves.
//!
//! With a token: a request with this password (HTTP basic authentication). Without a token: every connection to this
//! machine's loopback address, by one of its own names. The check of the name prevents DNS rebinding. Otherwise a page
//! of another site could let its own name point to 127.0.0.1. A browser would then take it for the dashboard's site.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

/// The name with which the actions of a request are recorded.
#[derive(Clone, Debug)]
pub(super) struct Actor(pub(super) String);

#[derive(Debug)]
pub(super) struct Admission {
    token: Option<String>,
    actor: String,
}

impl Admission {
    pub(super) fn new(token: Option<String>, actor: String) -> Self {
        Self { token, actor }
    }

    /// Returns who sends the request.
    fn actor(&self, headers: &HeaderMap) -> Result<Actor, Refusal> {
        let Some(token) = &self.token else {
            let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
            return if is_loopback(host) { Ok(Actor(self.actor.clone())) } else { Err(Refusal::Host) };
        };
        match credentials(headers) {
            Some((user, password)) if is_same(&password, token) => {
                Ok(Actor(if user.is_empty() { self.actor.clone() } else { user }))
            }
            _ => Err(Refusal::Credentials),
        }
    }
}

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Refusal {
    /// There is no token, and the request names another host.
    Host,
    /// The token is missing or wrong.
    Credentials,
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        match self {
            Self::Host => {
                let text = "without a token this dashboard answers only to the names localhost, 127.0.0.1 and [::1]; \
                            set JOBS_DASHBOARD_TOKEN to use it behind a proxy\n";
                (StatusCode::FORBIDDEN, text).into_response()
            }
            Self::Credentials => (
                StatusCode::UNAUTHORIZED,
                [(header::WWW_AUTHENTICATE, "Basic realm=\"jobs\", charset=\"UTF-8\"")],
                "write your name as user, and the token as password\n",
            )
                .into_response(),
        }
    }
}

/// Puts the actor into the request, or refuses it.
pub(super) async fn admit(State(admission): State<Arc<Admission>>, mut request: Request, next: Next) -> Response {
    match admission.actor(request.headers()) {
        Ok(actor) => {
            request.extensions_mut().insert(actor);
            next.run(request).await
        }
        Err(refusal) => refusal.into_response(),
    }
}

/// Whether the header `Host` is a name of this machine's loopback address, with any port.
fn is_loopback(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    name.eq_ignore_ascii_case("localhost")
        || name.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// The user and the password of HTTP's basic authentication.
fn credentials(headers: &HeaderMap) -> Option<(String, String)> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, encoded) = value.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let decoded = String::from_utf8(BASE64_STANDARD.decode(encoded.trim()).ok()?).ok()?;
    let (user, password) = decoded.split_once(':')?;
    // It is stored and shown as one line.
    let user = user.chars().filter(|c| !c.is_control()).take(100).collect();
    Some((user, password.to_owned()))
}

/// Compares in a time that depends on the length only.
fn is_same(one: &str, other: &str) -> bool {
    one.len() == other.len() && one.bytes().zip(other.bytes()).fold(0, |difference, (a, b)| difference | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: header::HeaderName, value: &str) -> HeaderMap {
        HeaderMap::from_iter([(name, value.parse().unwrap())])
    }

    #[test]
    fn without_a_token_only_names_of_this_machine_are_answered() {
        let admission = Admission::new(None, "ada".to_owned());
        for host in ["localhost", "LocalHost:8080", "127.0.0.1:8080", "[::1]:8080", "127.1.2.3"] {
            assert_eq!(admission.actor(&headers(header::HOST, host)).unwrap().0, "ada", "{host}");
        }
        for host in ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example:8080", "10.0.0.1", "[::2]", ""] {
            let refused = admission.actor(&headers(header::HOST, host)).unwrap_err();
            assert_eq!(refused.into_response().status(), StatusCode::FORBIDDEN, "{host}");
        }
        assert!(admission.actor(&HeaderMap::new()).is_err());
    }

    #[test]
    fn with_a_token_only_those_who_send_it_are_answered() {
        let admission = Admission::new(Some("0123456789abcdef".to_owned()), "ada".to_owned());
        let basic = |text: &str| headers(header::AUTHORIZATION, &format!("Basic {}", BASE64_STANDARD.encode(text)));
        assert_eq!(admission.actor(&basic("eve:0123456789abcdef")).unwrap().0, "eve");
        assert_eq!(admission.actor(&basic(":0123456789abcdef")).unwrap().0, "ada");
        for wrong in ["eve:0123456789abcdeF", "eve:", "0123456789abcdef", "eve:0123456789abcdef0", ""] {
            assert_eq!(admission.actor(&basic(wrong)).unwrap_err(), Refusal::Credentials, "{wrong}");
        }
        for wrong in ["Bearer 0123456789abcdef", "Basic !!!", "Basic"] {
            assert!(admission.actor(&headers(header::AUTHORIZATION, wrong)).is_err());
        }
        // The name of the host does not help.
        assert!(admission.actor(&headers(header::HOST, "localhost")).is_err());
    }
}
