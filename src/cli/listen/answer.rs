//! The answers to requests.

use std::time::Duration;

use diesel_jobs_core::{HealthCheck, MetricsText};
use hyper::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};

use super::Answers;
use crate::cli::standard_error;

/// How long a line of the log may wait for its reader.
const UNREAD_FOR: Duration = Duration::from_secs(60);

const PLAIN: &str = "text/plain; charset=utf-8";
const NOT_FOUND: &str = "not found; there are /livez, /readyz, /startupz and /metrics\n";

/// Answers a request. The body of the request is not read.
pub(super) fn answer<B>(request: &Request<B>, answers: &Answers) -> Response<String> {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let mut refused = text(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD\n".to_owned());
        refused.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return refused;
    }
    let verbose = request
        .uri()
        .query()
        .is_some_and(|query| query.split('&').any(|part| part.split('=').next() == Some("verbose")));
    match request.uri().path() {
        "/livez" => checked(&live(answers), verbose),
        "/readyz" => checked(&ready(answers), verbose),
        "/startupz" => checked(&[started(answers)], verbose),
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
        Some(worker) => vec![worker.liveness(), log(standard_error::unread_for())],
        None => Vec::new(),
    }
}

/// The worker runs without its log, but a restart may bring back what reads it.
fn log(unread_for: Option<Duration>) -> HealthCheck {
    match unread_for.filter(|unread| *unread >= UNREAD_FOR) {
        None => HealthCheck::new("log", true, "standard error is read"),
        Some(unread) => {
            let detail = format!("standard error was not read for {unread:.1?}, and log lines are lost");
            HealthCheck::new("log", false, detail)
        }
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

/// 200 if all checks have passed, else 503. Without `verbose` it names only the checks that failed.
fn checked(checks: &[HealthCheck], verbose: bool) -> Response<String> {
    let ok = checks.iter().all(|check| check.passed);
    let line = |check: &HealthCheck| {
        let mark = if check.passed { "[+]" } else { "[-]" };
        format!("{mark} {}: {}\n", check.name, check.detail)
    };
    let mut body: String = checks.iter().filter(|check| verbose || !check.passed).map(line).collect();
    body.push_str(if ok { "ok\n" } else { "failed\n" });
    text(if ok { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }, body)
}

fn text(status: StatusCode, body: String) -> Response<String> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(PLAIN));
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
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
    fn a_log_that_nobody_reads_for_a_minute_fails_the_probe() {
        let passed = |unread_for| log(unread_for).passed;
        assert!(passed(None) && passed(Some(Duration::from_secs(59))));
        let failed = checked(&[log(Some(Duration::from_millis(61_500)))], false);
        assert_eq!(failed.status(), StatusCode::SERVICE_UNAVAILABLE);
        let text = "[-] log: standard error was not read for 61.5s, and log lines are lost\nfailed\n";
        assert_eq!(failed.body(), text);
    }

    #[test]
    fn only_get_and_head_are_answered_and_other_paths_are_named() {
        let refused = asked(Method::POST, "/readyz");
        assert_eq!((refused.status().as_u16(), refused.headers()[ALLOW].to_str().unwrap()), (405, "GET, HEAD"));
        let missing = asked(Method::GET, "/health");
        assert_eq!(missing.status().as_u16(), 404);
        assert!(missing.body().contains("/livez"));
    }

    #[test]
    fn verbose_names_the_checks_that_passed_too() {
        let checks = [HealthCheck::new("one", true, "fine"), HealthCheck::new("other", false, "bad")];
        assert_eq!(checked(&checks, false).body(), "[-] other: bad\nfailed\n");
        assert_eq!(checked(&checks, true).body(), "[+] one: fine\n[-] other: bad\nfailed\n");
        assert_eq!(checked(&checks[..1], false).body(), "ok\n");
    }
}
