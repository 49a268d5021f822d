//! The guide's page on the dashboard.

use crate::page::Page;
use crate::support::{Db, worker};

#[test]
fn the_page_on_the_dashboard_shows_real_outputs() {
    let db = Db::postgres().migrated();
    let (_, name) = db.server();
    let help = worker("fixture-worker").args(["dashboard", "--help"]).run().succeeded().stdout;
    assert!(help.contains("127.0.0.1:8080"), "{help}");
    Page::read("docs/guide/dashboard.md").compare(|command| {
        assert_eq!(command, "worker dashboard");
        // Another program may have the default port.
        let dashboard = worker("fixture-worker").args(["dashboard", "--listen", "127.0.0.1:0"]);
        let mut dashboard = dashboard.env("DATABASE_URL", &db.url).env("USER", "ada").start();
        let database = dashboard.await_line("using ");
        let (before, place) = database.split_once(&format!(" {name} at ")).unwrap_or_else(|| panic!("{database}"));
        // A port is shown if it is not the default.
        let (_, after) = place.split_once(' ').unwrap_or((place, ""));
        let database = format!("{before} shop at localhost {after}");
        let address = dashboard.await_line("the dashboard is at ");
        let (before, port) = address.split_once("127.0.0.1:").unwrap_or((&address, ""));
        let after = port.trim_start_matches(|c: char| c.is_ascii_digit());
        format!("{database}\n{before}127.0.0.1:8080{after}\n")
    });
}
