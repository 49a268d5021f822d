//! `tail`: events as they happen.

use fixture_app::{Charge, Greet, HOUR, Wait, WaitFor};

use crate::support::{Db, Gate, on_postgres};

on_each_database! {
    fn tail_prints_events_as_they_happen_and_ends_on_sigint(db) {
        let db = db.migrated();
        let before = db.enqueue(Greet { name: "before".to_owned() });
        db.run(&["cancel", &before.to_string()]).succeeded();
        let mut tail = db.start(&["tail", "--interval", "100ms"]);
        let mut json = db.start(&["tail", "--interval", "100ms", "--json", "--kind", "charge", "--state", "discarded"]);
        tail.await_line("following");
        json.await_line("following");
        let mut worker = db.start(&["--queues", "default=3,mail=3", "--poll-interval", "50ms"]);
        let gate = Gate::closed();
        let waited = db.enqueue(WaitFor { file: gate.file() });
        let failed = db.enqueue(Charge { card: "4711".to_owned() });
        let cancelled = db.enqueue(Wait { millis: HOUR });
        // The start of an attempt is printed only if a reading finds the attempt still running.
        tail.await_output(&format!("{:9} {waited} ", "started"));
        tail.await_output(&format!("{:9} {cancelled} ", "started"));
        gate.open();
        tail.await_output(&format!("{:9} {waited} ", "completed"));
        tail.await_output(&format!("{:9} {failed} ", "discarded"));
        json.await_output("discarded");
        db.run(&["cancel", &cancelled.to_string()]).succeeded();
        tail.await_output(&format!("{:9} {cancelled} ", "cancelled"));
        tail.signal("INT");
        json.signal("TERM");
        let (tail, json) = (tail.ended().exited(0), json.ended().exited(0));
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
    tail.await_line("following");
    let (server, name) = db.server();
    on_postgres(server, &format!("alter database {name} allow_connections false"));
    let end = format!("select pg_terminate_backend(pid) from pg_stat_activity where datname = '{name}'");
    on_postgres(server, &end);
    tail.await_line("the database does not answer");
    on_postgres(server, &format!("alter database {name} allow_connections true"));
    tail.await_line("the database answers again");
    tail.signal("INT");
    tail.ended().exited(0);
}
