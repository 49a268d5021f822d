//! A worker that systemd has started: what it says to the socket of its unit, which is the test's own.

use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use fixture_app::WaitFor;

use crate::support::{Db, Gate, LIMIT, Prepared, Scratch, worker};

/// The socket of a unit, and all that was received so far.
struct Unit {
    socket: UnixDatagram,
    received: String,
}

impl Unit {
    fn bound(socket: UnixDatagram) -> Self {
        socket.set_read_timeout(Some(LIMIT)).unwrap();
        Self { socket, received: String::new() }
    }

    /// Receives until a message has this line. Returns the message.
    fn expect(&mut self, line: &str) -> String {
        loop {
            let message = self.next().unwrap_or_else(|| panic!("{line} has not come:\n{}", self.received));
            if message.lines().any(|one| one == line) {
                return message;
            }
        }
    }

    fn next(&mut self) -> Option<String> {
        let mut buffer = [0; 4096];
        let length = self.socket.recv(&mut buffer).ok()?;
        let message = String::from_utf8(buffer[..length].to_vec()).unwrap();
        self.received.push_str(&message);
        self.received.push('\n');
        Some(message)
    }

    /// All that the process has sent, after its end.
    fn all(mut self) -> String {
        self.socket.set_nonblocking(true).unwrap();
        while self.next().is_some() {}
        self.received
    }
}

fn supervised(db: &Db, socket: &str, args: &[&str]) -> Prepared {
    worker("fixture-worker").args(args).env("DATABASE_URL", &db.url).env("NOTIFY_SOCKET", socket)
}

on_each_database! {
    fn a_unit_learns_that_its_worker_is_ready_alive_and_stopping(db) {
        let db = db.migrated();
        let (scratch, gate) = (Scratch::new(), Gate::closed());
        let path = scratch.path().join("notify");
        let mut unit = Unit::bound(UnixDatagram::bind(&path).unwrap());
        let args = ["run", "--grace-period", "1h"];
        let worker = supervised(&db, path.to_str().unwrap(), &args).env("WATCHDOG_USEC", "400000").start();
        unit.expect("READY=1");
        assert_eq!(db.json(&["workers"]).as_array().unwrap().len(), 1, "it is registered");
        let id = db.enqueue(WaitFor { file: gate.file() });
        db.await_state(id, "running");
        let alive = unit.expect("WATCHDOG=1");
        assert!(alive.contains("STATUS=claiming jobs: "), "{alive}");
        worker.signal("TERM");
        let stopping = unit.expect("STOPPING=1");
        assert!(stopping.contains("EXTEND_TIMEOUT_USEC=3635000000"), "{stopping}");
        // Signs of life go on during the grace period.
        let alive = unit.expect("WATCHDOG=1");
        assert!(alive.contains("STATUS=stopping: 1 in progress; 0 completed"), "{alive}");
        gate.open();
        worker.ended().succeeded();
        assert_eq!(unit.all().matches("READY=1").count(), 1);
    }

    fn a_unit_learns_that_its_dashboard_is_ready_alive_and_stopping(db) {
        let db = db.migrated();
        let scratch = Scratch::new();
        let path = scratch.path().join("notify");
        let mut unit = Unit::bound(UnixDatagram::bind(&path).unwrap());
        let args = ["dashboard", "--listen", "127.0.0.1:0"];
        let dashboard = supervised(&db, path.to_str().unwrap(), &args).env("WATCHDOG_USEC", "400000").start();
        let ready = unit.expect("READY=1");
        assert!(ready.contains("STATUS=serving http://127.0.0.1:"), "{ready}");
        unit.expect("WATCHDOG=1");
        unit.expect("WATCHDOG=1");
        dashboard.signal("TERM");
        unit.expect("STOPPING=1");
        dashboard.ended().succeeded();
    }

    fn a_worker_that_does_not_start_is_never_ready(db) {
        let scratch = Scratch::new();
        let path = scratch.path().join("notify");
        let unit = Unit::bound(UnixDatagram::bind(&path).unwrap());
        supervised(&db, path.to_str().unwrap(), &["run"]).run().exited(4);
        let all = unit.all();
        assert!(!all.contains("READY=1"), "{all}");
    }
}

#[test]
fn a_socket_may_have_an_abstract_name_and_the_watchdog_of_another_process_is_left_alone() {
    let db = Db::sqlite().migrated();
    let name = format!("jobs-test-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(&name).unwrap();
    let mut unit = Unit::bound(UnixDatagram::bind_addr(&address).unwrap());
    let worker = supervised(&db, &format!("@{name}"), &["run"]).env("WATCHDOG_USEC", "1000").env("WATCHDOG_PID", "1");
    let worker = worker.start();
    unit.expect("READY=1");
    unit.expect("STATUS=claiming jobs: 0 in progress; 0 completed, 0 to be retried, 0 discarded");
    worker.signal("TERM");
    unit.expect("STOPPING=1");
    worker.ended().succeeded();
    let all = unit.all();
    assert!(!all.contains("WATCHDOG"), "{all}");
}

/// The unit may be gone: that is no reason to run no jobs.
#[test]
fn a_socket_that_nobody_reads_is_logged_and_the_worker_runs() {
    let db = Db::sqlite().migrated();
    let mut worker = supervised(&db, "/no/such/directory/notify", &["run"]).start();
    worker.await_line("systemd could not be notified (NOTIFY_SOCKET)");
    worker.await_line("worker started");
    worker.signal("TERM");
    worker.ended().succeeded();
}
