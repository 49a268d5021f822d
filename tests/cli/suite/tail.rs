//! `tail`: events as they happen.

use std::time::Duration;

use fixture_app::{Charge, Greet, Wait};

use crate::support::{Db, on_postgres};

const LIMIT: Duration = Duration::from_secs(30);

on_each_database! {
    fn tail_prints_events_as_they_happen_and_ends_on_sigint(db) {
        let db = db.migrated();
        let before = db.enqueue(Greet { name: "before".to_owned() });
        db.run(&["cancel", &before.to_string()]).succeeded();
        let tail = db.start(&["tail", "--interval", "100ms"]);
        let json = db.start(&["tail", "--interval", "100ms", "--json", "--kind", "charge", "--state", "discarded"]);
        std::thread::sleep(Duration::from_millis(1500));
        let mut worker = db.start(&["--queues", "default=3,mail=3", "--poll", "50ms"]);
        let waited = db.enqueue(Wait { millis: 1500 });
        let failed = db.enqueue(Charge { card: "4711".to_owned() });
        let cancelled = db.enqueue(Wait { millis: 60_000 });
        db.await_state(waited, "completed");
        db.await_state(failed, "discarded");
        db.await_state(cancelled, "running");
        std::thread::sleep(Duration::from_millis(700));
        db.run(&["cancel", &cancelled.to_string()]).succeeded();
        std::thread::sleep(Duration::from_millis(1500));
        tail.signal("INT");
        json.signal("TERM");
        let (tail, json) = (tail.ended(LIMIT).exited(0), json.ended(LIMIT).exited(0));
        worker.kill();

        let count = |event: &str, id| {
            let wanted = format!("{event:9} {id} ");
            tail.stdout.lines().filter(|line| line.contains(&wanted)).count()
        };
        assert_eq!(count("completed", waited), 1, "{}", tail.stdout);
        assert_eq!(count("discarded", failed), 1, "{}", tail.stdout);
        assert_eq!((count("started", cancelled), count("cancelled", cancelled)), (1, 1), "{}", tail.stdout);
        assert!(tail.stdout.contains("the bank is closed") && !tail.stdout.contains("retried"), "{}", tail.stdout);
        assert!(!tail.stdout.contains("greet"), "it was cancelled before: {}", tail.stdout);
        assert!(!tail.stdout.contains("4711"), "no arguments");
        let events: Vec<serde_json::Value> = json.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(events.len(), 1, "{}", json.stdout);
        assert_eq!((&events[0]["event"], &events[0]["kind"], &events[0]["attempt"]), (&"discarded".into(), &"charge".into(), &1.into()));
    }

    fn tail_refuses_an_unknown_event(db) {
        db.migrated().run(&["tail", "--state", "exploded"]).exited(2).complained(&["rescued"]);
    }
}

#[test]
fn tail_survives_an_outage() {
    let db = Db::postgres().migrated();
    let mut tail = db.start(&["tail", "--interval", "100ms"]);
    std::thread::sleep(Duration::from_millis(1000));
    let (server, name) = db.server();
    on_postgres(server, &format!("alter database {name} allow_connections false"));
    let end = format!("select pg_terminate_backend(pid) from pg_stat_activity where datname = '{name}'");
    on_postgres(server, &end);
    tail.await_line("the database does not answer");
    on_postgres(server, &format!("alter database {name} allow_connections true"));
    tail.await_line("the database answers again");
    tail.signal("INT");
    tail.ended(LIMIT).exited(0);
}
