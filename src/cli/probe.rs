//! What a probe is answered, by `run --listen` and by the dashboard.
#![cfg(any(feature = "dashboard", feature = "listen"))]

use std::time::Duration;

use diesel_jobs_core::HealthCheck;
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use hyper::{Response, StatusCode, Uri};

use super::standard_error;

/// How long a line of the log may wait for its reader.
const UNREAD_FOR: Duration = Duration::from_secs(60);

const PLAIN: &str = "text/plain; charset=utf-8";

/// The process runs without its log, but a restart may bring back what reads it.
pub(super) fn log() -> HealthCheck {
    log_unread_for(standard_error::unread_for())
}

fn log_unread_for(unread_for: Option<Duration>) -> HealthCheck {
    match unread_for.filter(|unread| *unread >= UNREAD_FOR) {
        None => HealthCheck::new("log", true, "standard error is read"),
        Some(unread) => {
            let detail = format!("standard error was not read for {unread:.1?}, and log lines are lost");
            HealthCheck::new("log", false, detail)
        }
    }
}

/// 200 if all checks have passed, else 503. Names only the checks that failed, unless the query of the address has the
/// word `verbose`.
pub(super) fn checked(checks: &[HealthCheck], uri: &Uri) -> Response<String> {
    let verbose =
        uri.query().is_some_and(|query| query.split('&').any(|part| part.split('=').next() == Some("verbose")));
    let ok = checks.iter().all(|check| check.passed);
    let line = |check: &HealthCheck| {
        let mark = if check.passed { "[+]" } else { "[-]" };
        format!("{mark} {}: {}\n", check.name, check.detail)
    };
    let mut body: String = checks.iter().filter(|check| verbose || !check.passed).map(line).collect();
    body.push_str(if ok { "ok\n" } else { "failed\n" });
    text(if ok { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }, body)
}

pub(super) fn text(status: StatusCode, body: String) -> Response<String> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(PLAIN));
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(checks: &[HealthCheck], uri: &'static str) -> String {
        checked(checks, &Uri::from_static(uri)).into_body()
    }

    #[test]
    fn a_log_that_nobody_reads_for_a_minute_fails_the_probe() {
        let passed = |unread_for| log_unread_for(unread_for).passed;
        assert!(passed(None) && passed(Some(Duration::from_secs(59))));
        let failed = checked(&[log_unread_for(Some(Duration::from_millis(61_500)))], &Uri::from_static("/livez"));
        assert_eq!(failed.status(), StatusCode::SERVICE_UNAVAILABLE);
        let text = "[-] log: standard error was not read for 61.5s, and log lines are lost\nfailed\n";
        assert_eq!(failed.body(), text);
    }

    #[test]
    fn verbose_names_the_checks_that_passed_too() {
        let checks = [HealthCheck::new("one", true, "fine"), HealthCheck::new("other", false, "bad")];
        assert_eq!(body(&checks, "/readyz"), "[-] other: bad\nfailed\n");
        assert_eq!(body(&checks, "/readyz?verbose"), "[+] one: fine\n[-] other: bad\nfailed\n");
        assert_eq!(body(&checks[..1], "/readyz?a=b"), "ok\n");
    }
}
