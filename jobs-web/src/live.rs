//! The event stream: while a page is open, its changes are sent to the script.
//!
//! The stream renders the page repeatedly, with the rights of its reader. It sends the part between two marks if it
//! differs from the last one. The rights are checked each time. When the rights end, the stream ends.

use std::convert::Infallible;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderValue, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tower::ServiceExt as _;

use crate::link;

/// Each stream renders its page repeatedly. If there are this many, the script of another page asks for the page
/// instead.
const MOST_STREAMS: usize = 100;

/// All pages, behind the guard, and how many more streams may be open.
#[derive(Clone)]
pub(crate) struct Pages {
    router: Router,
    free: Arc<Semaphore>,
}

impl Pages {
    pub(crate) fn new(router: Router) -> Self {
        Self { router, free: Arc::new(Semaphore::new(MOST_STREAMS)) }
    }
}

/// How often a page is rendered.
const EVERY: Duration = Duration::from_secs(2);
/// This many renderings end a stream. The browser opens a new one by itself.
const ROUNDS: u32 = 300;
/// A page that is larger is an error.
const MOST_BYTES: usize = 16 << 20;
const BEGIN: &str = "<!--live-->";
const END: &str = "<!--/live-->";

struct Stream {
    pages: Router,
    request: Request<()>,
    rounds: u32,
    last: Option<u64>,
    /// Given back at the end of the stream.
    _place: OwnedSemaphorePermit,
}

/// `GET /events?page=/jobs`.
pub(crate) async fn events(State(Pages { router: pages, free }): State<Pages>, request: Request) -> Response {
    let query = link::decode(request.uri().query().unwrap_or_default());
    let page = query.into_iter().find(|(name, _)| name == "page").map(|(_, page)| page).unwrap_or_default();
    // A path of ours, and not another site.
    let is_path = page.starts_with('/') && !page.starts_with("//");
    let Some(uri) = is_path.then(|| page.parse::<Uri>().ok()).flatten().filter(|uri| uri.host().is_none()) else {
        return (StatusCode::BAD_REQUEST, "write ?page=/jobs, with the path of a page\n").into_response();
    };
    let Ok(place) = free.try_acquire_owned() else {
        return (StatusCode::SERVICE_UNAVAILABLE, "too many pages are open; this one asks for changes by itself\n")
            .into_response();
    };
    let (parts, _) = request.into_parts();
    let mut request = Request::new(());
    *request.method_mut() = Method::GET;
    *request.uri_mut() = uri;
    *request.headers_mut() = parts.headers;
    *request.extensions_mut() = parts.extensions;
    let stream = Stream { pages, request, rounds: 0, last: None, _place: place };
    let body = Body::from_stream(stream::unfold(stream, |stream| async move { stream.next().await }));
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream")),
        // Without this header, a proxy that buffers responses would delay the events.
        (header::HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no")),
    ];
    (headers, body).into_response()
}

impl Stream {
    /// The next piece of the stream: a change, or a comment that keeps the connection open.
    async fn next(mut self) -> Option<(Result<String, Infallible>, Self)> {
        if self.rounds >= ROUNDS {
            return None;
        }
        if self.rounds > 0 {
            tokio::time::sleep(EVERY).await;
        }
        self.rounds += 1;
        let (head, ()) = self.request.clone().into_parts();
        // A router never fails.
        let Ok(response) = self.pages.clone().oneshot(Request::from_parts(head, Body::empty())).await;
        if response.status() == StatusCode::FORBIDDEN || response.status() == StatusCode::UNAUTHORIZED {
            return None;
        }
        let page = to_bytes(response.into_body(), MOST_BYTES).await.ok()?;
        let page = String::from_utf8_lossy(&page);
        let Some(part) = live_part(&page) else { return Some((Ok(": nothing to show\n\n".to_owned()), self)) };
        let mut hasher = DefaultHasher::new();
        part.hash(&mut hasher);
        let hash = hasher.finish();
        if self.last.replace(hash) == Some(hash) {
            return Some((Ok(": unchanged\n\n".to_owned()), self));
        }
        Some((Ok(event(part)), self))
    }
}

/// The part of a page that changes. Texts of jobs cannot contain the marks, because `<` is escaped.
fn live_part(page: &str) -> Option<&str> {
    let (_, rest) = page.split_once(BEGIN)?;
    rest.rsplit_once(END).map(|(part, _)| part)
}

/// An event with this text. A carriage return ends a line of the stream, too, and texts of jobs may contain some.
fn event(part: &str) -> String {
    let part = part.replace('\r', "&#13;");
    let lines: String = part.lines().map(|line| format!("data: {line}\n")).collect();
    format!("event: page\n{lines}\n")
}

#[cfg(test)]
mod tests {
    use super::{event, live_part};

    #[test]
    fn no_text_of_a_job_ends_an_event() {
        let text = "<b>1%\r2%\r\revent: gone\r\n</b>";
        assert_eq!(event(text), "event: page\ndata: <b>1%&#13;2%&#13;&#13;event: gone&#13;\ndata: </b>\n\n");
    }

    #[test]
    fn the_part_between_the_marks_is_sent() {
        assert_eq!(live_part("<p>a</p><!--live--><b>1</b><!--/live--><p>"), Some("<b>1</b>"));
        assert_eq!(live_part("<p>a page that does not change</p>"), None);
    }
}
