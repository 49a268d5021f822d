//! `dashboard`: a real process that serves the pages.

use fixture_app::Greet;
use serde_json::json;

use crate::support::http::exchange;
use crate::support::{Running, worker};

const TOKEN: &str = "0123456789abcdef";
/// The user eve with the token, and with another one.
const EVE: &str = "authorization: Basic ZXZlOjAxMjM0NTY3ODlhYmNkZWY=\r\n";
const WRONG: &str = "authorization: Basic ZXZlOjAxMjM0NTY3ODlhYmNkZWZn\r\n";

/// Where the dashboard says that it is, without the path.
pub(crate) fn address(dashboard: &mut Running) -> String {
    let line = dashboard.await_line("the dashboard is at http://");
    line.split_once("http://").unwrap().1.split('/').next().unwrap().to_owned()
}

/// The status and the body of an answer.
fn ask(address: &str, line: &str, headers: &str, body: &str) -> (u16, String) {
    let length = body.len();
    let request = format!(
        "{line} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n{headers}content-type: application/x-www-form-urlencoded\r\n\
         content-length: {length}\r\n\r\n{body}"
    );
    let answer = exchange(address, request.as_bytes());
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no HTTP: {answer:?}"));
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

pub(crate) fn page(address: &str, path: &str) -> (u16, String) {
    ask(address, &format!("GET {path}"), "", "")
}

/// Asks for this job to be cancelled, as the form of the page does.
pub(crate) fn cancel(address: &str, headers: &str, id: i64) -> u16 {
    let headers = format!("{headers}origin: http://{address}\r\nsec-fetch-site: same-origin\r\n");
    ask(address, "POST /confirm", &headers, &format!("action=cancel&id={id}")).0
}

on_each_database! {
    fn the_dashboard_shows_jobs_and_acts_on_them_and_ends_with_a_signal(db) {
        let db = db.migrated();
        let id = db.enqueue(Greet { name: "ada".to_owned() });
        let mut dashboard = db.start(&["dashboard", "--listen", "127.0.0.1:0", "--actor", "grace"]);
        let at = address(&mut dashboard);
        let (status, text) = page(&at, &format!("/jobs/{id}"));
        assert!(status == 200 && text.contains("greet") && text.contains("ada"), "{status}: {text}");
        assert_eq!(page(&at, "/jobs/987654321").0, 404);
        // Another name of the same address could be another site.
        let evil = exchange(&at, b"GET / HTTP/1.1\r\nhost: evil.example\r\nconnection: close\r\n\r\n");
        assert!(evil.starts_with("HTTP/1.1 403") && evil.contains("JOBS_DASHBOARD_TOKEN"), "{evil}");
        assert!(cancel(&at, "", id) < 400);
        db.await_state(id, "cancelled");
        let audit = db.json(&["audit"])[0].clone();
        assert_eq!((&audit["action"], &audit["actor"]), (&json!("cancel"), &json!("grace")));
        dashboard.signal("TERM");
        let ended = dashboard.ended().exited(0);
        assert!(ended.stderr.contains("the dashboard ends"), "{}", ended.stderr);
    }

    fn the_dashboard_of_the_worker_finds_the_jobs_of_a_renamed_kind(db) {
        let db = db.migrated();
        let id = db.enqueue(Greet { name: "ada".to_owned() });
        let args = ["dashboard", "--listen", "127.0.0.1:0", "--actor", "grace"];
        let mut dashboard = worker("renamed-worker").args(args).env("DATABASE_URL", &db.url).start();
        let at = address(&mut dashboard);
        for path in ["/jobs?kind=hail", "/jobs?kind=greet", "/jobs?q=kind%3Ahail"] {
            let (status, text) = page(&at, path);
            assert!(status == 200 && text.contains(&format!("/jobs/{id}\"")), "{path}: {status}: {text}");
        }
    }

    fn a_dashboard_that_only_reads_changes_nothing(db) {
        let db = db.migrated();
        let id = db.enqueue(Greet { name: "ada".to_owned() });
        let mut dashboard = db.start(&["dashboard", "--listen", "127.0.0.1:0", "--actor", "grace", "--read-only"]);
        let at = address(&mut dashboard);
        let (status, text) = page(&at, &format!("/jobs/{id}"));
        assert!(status == 200 && !text.contains("value=\"cancel\""), "{status}: {text}");
        assert_eq!(cancel(&at, "", id), 403);
        db.await_state(id, "available");
    }

    fn with_a_token_nobody_else_sees_a_page(db) {
        let db = db.migrated();
        let id = db.enqueue(Greet { name: "ada".to_owned() });
        let args = ["dashboard", "--listen", "0.0.0.0:0", "--allow-remote", "--actor", "grace"];
        let mut dashboard =
            worker("fixture-worker").args(args).env("DATABASE_URL", &db.url).env("JOBS_DASHBOARD_TOKEN", TOKEN).start();
        let at = address(&mut dashboard).replace("0.0.0.0", "127.0.0.1");
        for path in ["/", "/jobs", "/style.css", "/events", "/none"] {
            for headers in ["", WRONG] {
                let (status, text) = ask(&at, &format!("GET {path}"), headers, "");
                assert!(status == 401 && text.contains("the token as password"), "{path}: {status}: {text}");
            }
        }
        assert_eq!((cancel(&at, "", id), cancel(&at, WRONG, id)), (401, 401));
        db.await_state(id, "available");
        assert_eq!(ask(&at, "GET /jobs", EVE, "").0, 200);
        assert!(cancel(&at, EVE, id) < 400);
        assert_eq!(db.json(&["audit"])[0]["actor"], json!("eve"));
    }

    fn probes_need_no_token_and_may_use_any_name_of_the_machine(db) {
        let db = db.migrated();
        let args = ["dashboard", "--listen", "0.0.0.0:0", "--allow-remote", "--actor", "grace", "--base", "/admin/jobs"];
        let mut dashboard =
            worker("fixture-worker").args(args).env("DATABASE_URL", &db.url).env("JOBS_DASHBOARD_TOKEN", TOKEN).start();
        let at = address(&mut dashboard).replace("0.0.0.0", "127.0.0.1");
        for path in ["/livez", "/readyz"] {
            let answer = exchange(&at, format!("GET {path} HTTP/1.1\r\nhost: jobs.example\r\nconnection: close\r\n\r\n").as_bytes());
            assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("\r\n\r\nok\n"), "{path}: {answer}");
            assert!(answer.contains("cache-control: no-store"), "{path}: {answer}");
        }
        assert_eq!(page(&at, "/readyz?verbose"), (200, "[+] database: the database answers\nok\n".to_owned()));
        assert_eq!(ask(&at, "POST /readyz", "", "").0, 405);
        assert_eq!(page(&at, "/admin/jobs/readyz").0, 401);
    }

    fn arguments_of_unknown_kinds_are_shown_only_if_the_operator_asks_for_it(db) {
        let db = db.migrated();
        db.enqueue_many_with("elsewhere", "default", 1, r#"{"token":"hunter2"}"#);
        let id = db.json(&["list"])[0]["id"].as_i64().unwrap();
        let shown = |args: &[&str]| {
            let mut dashboard = db.start(&[&["dashboard", "--listen", "127.0.0.1:0", "--actor", "grace"], args].concat());
            let at = address(&mut dashboard);
            let (status, text) = page(&at, &format!("/jobs/{id}"));
            assert!(status == 200 && text.contains("does not know which arguments are secret"), "{status}: {text}");
            text.contains("hunter2")
        };
        assert!(!shown(&[]));
        assert!(shown(&["--show-arguments-of-unknown-kinds"]));
    }

    fn a_base_is_part_of_the_links_and_not_needed_in_the_address(db) {
        let db = db.migrated();
        let mut dashboard = db.start(&["dashboard", "--listen", "127.0.0.1:0", "--actor", "grace", "--base", "/admin/jobs"]);
        let at = address(&mut dashboard);
        for path in ["/admin/jobs/queues", "/queues"] {
            let (status, text) = page(&at, path);
            assert!(status == 200 && text.contains("href=\"/admin/jobs/failures\""), "{path}: {status}: {text}");
        }
    }

    fn pages_of_named_origins_may_show_the_dashboard_in_a_frame(db) {
        let db = db.migrated();
        let policy = |args: &[&str]| {
            let mut dashboard = db.start(&[&["dashboard", "--listen", "127.0.0.1:0", "--actor", "grace"], args].concat());
            let at = address(&mut dashboard);
            let request = format!("GET /queues HTTP/1.1\r\nhost: {at}\r\nconnection: close\r\n\r\n");
            let answer = exchange(&at, request.as_bytes());
            let (_, ancestors) = answer.split_once("frame-ancestors ").unwrap_or_else(|| panic!("no policy: {answer}"));
            (ancestors.lines().next().unwrap().to_owned(), answer.contains("x-frame-options: DENY"))
        };
        assert_eq!(policy(&[]), ("'none'".to_owned(), true));
        let origins = ["--frame-ancestors", "https://ops.example.org,https://*.example.net", "--frame-ancestors", "'self'"];
        assert_eq!(policy(&origins), ("https://ops.example.org https://*.example.net 'self'".to_owned(), false));
    }
}

#[test]
fn a_dashboard_without_its_database_is_alive_and_not_ready_and_does_not_name_it() {
    // Nothing listens at this port.
    let url = "postgres://me:s3cret@127.0.0.1:1/shop";
    let args = ["dashboard", "--listen", "127.0.0.1:0", "--actor", "grace"];
    let mut dashboard = worker("fixture-worker").args(args).env("DATABASE_URL", url).start();
    let at = address(&mut dashboard);
    let failed = "[-] database: the database cannot be reached\nfailed\n";
    assert_eq!(page(&at, "/readyz"), (503, failed.to_owned()));
    assert_eq!(page(&at, "/livez"), (200, "ok\n".to_owned()));
}

#[test]
fn settings_that_would_let_everybody_in_are_refused() {
    let refused = |args: &[&str], token: Option<&str>, parts: &[&str]| {
        let mut prepared =
            worker("fixture-worker").args(["dashboard"]).args(args).env("DATABASE_URL", "sqlite::memory:");
        if let Some(token) = token {
            prepared = prepared.env("JOBS_DASHBOARD_TOKEN", token);
        }
        prepared.run().exited(2).complained(parts);
    };
    refused(&["--listen", "0.0.0.0:0"], None, &["--listen 0.0.0.0:0", "--allow-remote", "JOBS_DASHBOARD_TOKEN"]);
    refused(&["--listen", "0.0.0.0:0"], Some(TOKEN), &["--allow-remote"]);
    refused(&["--listen", "[::]:0", "--allow-remote"], None, &["at least 16 characters"]);
    refused(&["--listen", "0.0.0.0:0", "--allow-remote"], Some("short"), &["JOBS_DASHBOARD_TOKEN is too short", "16"]);
    refused(&["--listen", "8080"], None, &["127.0.0.1:8080"]);
    for wrong in [
        "*",
        "ops.example.org",
        "https://a.example,https://me:s3cret@b.example",
        "https://ops.example.org/page",
        "https://a.example; script-src *",
    ] {
        refused(&["--frame-ancestors", wrong], None, &["--frame-ancestors: write origins", "https://ops.example.org"]);
    }
}
