//! The answers to requests.

use diesel_jobs_core::{HealthCheck, MetricsText};
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};

use super::Answers;
use crate::cli::probe::{checked, log, text};

const NOT_FOUND: &str = "not found; there are /livez, /readyz, /startupz and /metrics\n";

/// Answers a request. The body of the request is not read.
pub(super) fn answer<B>(request: &Request<B>, answers: &Answers) -> Response<String> {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let mut refused = text(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD\n".to_owned());
        refused.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return refused;
    }
    match request.uri().path() {
        "/livez" => checked(&live(answers), request.uri()),
        "/readyz" => checked(&ready(answers), request.uri()),
        "/startupz" => checked(&[started(answers)], request.uri()),
        "/metrics" => {
            answers.asked.notify_one();
            let mut metrics = text(StatusCode::OK, answers.metrics.render());
            metrics.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(MetricsText::CONTENT_TYPE));
            metrics
        }
        _ => text(StatusCode::NOT_FOUND, NOT_FOUND.to_owned()),
    }
}

/// Before the worker exists, there is nothing that a restart would repair.
fn live(answers: &Answers) -> Vec<HealthCheck> {
    match answers.worker.get() {
        Some(worker) => vec![worker.liveness(), log()],
        None => Vec::new(),
    }
}

fn ready(answers: &Answers) -> Vec<HealthCheck> {
    match answers.worker.get() {
        Some(worker) => worker.readiness(),
        None => vec![started(answers)],
    }
}

fn started(answers: &Answers) -> HealthCheck {
    match answers.worker.get() {
        Some(worker) if worker.has_started() => HealthCheck::new("started", true, "the worker has started"),
        _ => HealthCheck::new("started", false, "the worker has not started yet"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(method: Method, path: &str) -> Response<String> {
        let request = Request::builder().method(method).uri(path).body(()).unwrap();
        answer(&request, &Answers::default())
    }

    #[test]
    fn before_the_worker_exists_the_process_is_alive_and_not_ready() {
        let status = |path| asked(Method::GET, path).status().as_u16();
        assert_eq!((status("/livez"), status("/startupz"), status("/readyz")), (200, 503, 503));
        assert_eq!(status("/metrics"), 200);
    }

    #[test]
    fn only_get_and_head_are_answered_and_other_paths_are_named() {
        let refused = asked(Method::POST, "/readyz");
        assert_eq!((refused.status().as_u16(), refused.headers()[ALLOW].to_str().unwrap()), (405, "GET, HEAD"));
        let missing = asked(Method::GET, "/health");
        assert_eq!(missing.status().as_u16(), 404);
        assert!(missing.body().contains("/livez"));
    }
}
