//! `run --listen`: probes and metrics of a real worker process.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};

use fixture_app::{Block, Charge, Greet, HOUR, LogIn, Wait, WaitFor};

use crate::support::http::{address, exchange, get, request, scraped};
use crate::support::{Db, Gate, LIMIT, worker};

fn until(what: &str, mut check: impl FnMut() -> bool) {
    crate::support::until(|| check().then_some(()).ok_or(what));
}

on_each_database! {
    fn the_metrics_move_as_jobs_run_and_hold_no_arguments(db) {
        let db = db.migrated();
        let mut worker = db.start(&["--listen", "127.0.0.1:0", "--poll-interval", "100ms"]);
        let address = address(&mut worker);
        until("the start", || get(&address, "/startupz").status == 200);
        let before = scraped(&address);
        assert_eq!(before.sum("jobs_attempts_total", &[]), 0.0);
        assert_eq!(before.sum("jobs_slots", &[("queue", "mail")]), 4.0);

        let done = db.enqueue(Greet { name: "ada@example.org".to_owned() });
        let failed = db.enqueue(Charge { card: "4111".to_owned() });
        let secret = db.enqueue(LogIn { user: "grace".to_owned(), password: "hopper1906".to_owned() });
        let long = db.enqueue(Wait { millis: HOUR });
        db.await_state(done, "completed");
        db.await_state(failed, "discarded");
        db.await_state(secret, "discarded");
        db.await_state(long, "running");
        until("the counters", || scraped(&address).sum("jobs_attempts_total", &[]) == 3.0);

        let after = scraped(&address);
        let attempts = |labels: &[(&str, &str)]| after.sum("jobs_attempts_total", labels);
        assert_eq!(attempts(&[("queue", "mail"), ("kind", "greet"), ("outcome", "completed")]), 1.0);
        assert_eq!(attempts(&[("kind", "charge"), ("outcome", "discarded"), ("error_type", "error")]), 1.0);
        assert_eq!(after.sum("messaging_client_consumed_messages_total", &[]), 4.0);
        assert_eq!(after.sum("messaging_process_duration_seconds_count", &[("kind", "greet")]), 1.0);
        assert_eq!(after.sum("jobs_wait_duration_seconds_count", &[]), 3.0);
        assert_eq!(after.sum("jobs_running", &[]), 1.0);
        assert!(after.sum("messaging_client_operation_duration_seconds_count", &[("operation", "claim")]) >= 1.0);
        assert!(after.sum("jobs_worker_uptime_seconds", &[]) > 0.0);
        until("the gauges of the database", || scraped(&address).sum("jobs_workers", &[("state", "alive")]) == 1.0);
        let all = scraped(&address);
        assert!(all.types.contains_key("jobs_sample_age_seconds"));
        // SQLite is reached without connections, and has no dead rows.
        let is_postgres = db.waiting_table() == "jobs.ready";
        assert_eq!(all.sum("jobs_connections", &[]) >= 1.0, is_postgres);
        let dead = ["jobs_dead_rows", "jobs_snapshot_age_seconds"].map(|name| all.types.contains_key(name));
        assert_eq!(dead, [is_postgres; 2]);
        let text = get(&address, "/metrics").body;
        for secret in ["ada@example.org", "4111", "grace", "hopper1906", "the bank is closed"] {
            assert!(!text.contains(secret), "{secret} is in the metrics");
        }
        for label in ["id", "job", "worker", "attempt", "tag"] {
            assert!(after.values(label).is_empty(), "the label {label}");
        }
    }

    fn a_worker_that_drains_is_alive_and_not_ready(db) {
        let db = db.migrated();
        let gate = Gate::closed();
        let id = db.enqueue(WaitFor { file: gate.file() });
        let mut worker = db.start(&["--listen", "127.0.0.1:0", "--poll-interval", "100ms", "--grace-period", "1h"]);
        let address = address(&mut worker);
        db.await_state(id, "running");
        until("the worker is ready", || get(&address, "/readyz").status == 200);
        worker.signal("TERM");
        worker.await_line("SIGTERM");
        until("the worker drains", || get(&address, "/readyz").status == 503);
        let ready = get(&address, "/readyz?verbose");
        assert!(ready.body.contains("[-] draining") && ready.body.contains("[+] database"), "{}", ready.body);
        assert_eq!(get(&address, "/livez").status, 200);
        assert_eq!(scraped(&address).sum("jobs_worker_draining", &[]), 1.0);
        gate.open();
        worker.ended().succeeded();
    }

    fn handlers_that_block_all_threads_stop_no_answer(db) {
        let db = db.migrated();
        let mut worker = db.start(&["--listen", "127.0.0.1:0", "--poll-interval", "100ms"]);
        let address = address(&mut worker);
        until("the worker is ready", || get(&address, "/readyz").status == 200);
        let (gate, threads) = (Gate::closed(), std::thread::available_parallelism().unwrap().get().min(16));
        for _ in 0..threads {
            db.enqueue(Block { file: gate.file() });
        }
        until("the handlers block", || scraped(&address).sum("jobs_running", &[]) == threads as f64);
        // An answer that needed one of the blocked threads would never come.
        for _ in 0..30 {
            assert_eq!(get(&address, "/livez").status, 200);
            assert_eq!(get(&address, "/readyz").status, 200);
        }
        gate.open();
        until("the handlers end", || scraped(&address).sum("jobs_running", &[]) == 0.0);
    }
}

#[test]
fn a_worker_whose_database_goes_away_is_not_ready_until_it_comes_back() {
    let db = Db::postgres().migrated();
    // A proxy of our own stands in for the server that goes away.
    let proxy = crate::support::proxy::Proxy::start(&db.url);
    let mut process = worker("fixture-worker")
        .args(["--listen", "127.0.0.1:0", "--poll-interval", "100ms", "--lease", "2s"])
        .env("DATABASE_URL", proxy.url())
        .start();
    let address = address(&mut process);
    until("the worker is ready", || get(&address, "/readyz").status == 200);
    proxy.cut();
    until("the outage is seen", || get(&address, "/readyz").status == 503);
    let ready = get(&address, "/readyz");
    assert!(ready.body.contains("[-] database: the last answered heartbeat is"), "{}", ready.body);
    assert_eq!(get(&address, "/livez").status, 200);
    let errors = || scraped(&address).sum("jobs_database_errors_total", &[("error_type", "unavailable")]);
    until("the errors are counted", || errors() > 0.0);
    proxy.mend();
    until("the worker is ready again", || get(&address, "/readyz").status == 200);
}

#[test]
fn an_address_that_cannot_be_used_is_an_error_of_the_command_line() {
    let db = Db::sqlite().migrated();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let place = taken.local_addr().unwrap().to_string();
    db.run(&["--listen", &place]).exited(2).complained(&[&place, "--listen", "another program listens there"]);
    db.run(&["--listen", "9464"]).exited(2).complained(&["127.0.0.1:9464"]);
    db.run(&["--listen", "203.0.113.7:0"]).exited(2).complained(&["does not have this address"]);
}

#[test]
fn slow_and_hostile_clients_do_not_stop_the_answers() {
    let db = Db::sqlite().migrated();
    let mut worker = db.start(&["--listen", "127.0.0.1:0"]);
    let address = address(&mut worker);
    until("the start", || get(&address, "/startupz").status == 200);
    // More silent clients than connections.
    let silent: Vec<TcpStream> = (0..200).map(|_| TcpStream::connect(&address).unwrap()).collect();
    assert_eq!(get(&address, "/livez").status, 200);
    drop(silent);
    // A head without an end is cut off.
    let endless = exchange(&address, &[b"GET / HTTP/1.1\r\n".as_slice(), &b"a: b\r\n".repeat(100_000)].concat());
    assert!(endless.is_empty() || endless.contains(" 431 ") || endless.contains(" 400 "), "{endless:?}");
    // A client that stops in the middle of its head is cut off after a few seconds.
    let mut slow = TcpStream::connect(&address).unwrap();
    slow.set_read_timeout(Some(LIMIT)).unwrap();
    slow.write_all(b"GET /livez HTTP/1.1\r\nhost:").unwrap();
    let mut rest = Vec::new();
    let ended = slow.read_to_end(&mut rest).map_err(|error| error.kind());
    assert!(![Err(ErrorKind::WouldBlock), Err(ErrorKind::TimedOut)].contains(&ended), "it is still connected");
    assert!(!String::from_utf8_lossy(&rest).contains(" 200 "));
    assert_eq!(request(&address, "POST", "/metrics").status, 405);
    let head = request(&address, "HEAD", "/metrics");
    assert_eq!((head.status, head.body.as_str()), (200, ""));
    assert_eq!(get(&address, "/other").status, 404);
}
