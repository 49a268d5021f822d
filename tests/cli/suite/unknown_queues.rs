//! Queues that no code names: they are served, and a message says so. Variables that no code reads.

use fixture_app::Greet;
use jobs::Job as _;

use crate::support::{Findings, worker};

on_each_database! {
    fn a_queue_known_only_from_sql_is_served_with_a_note(db) {
        let db = db.migrated();
        let id = db.enqueue(Greet { name: "x".to_owned() }.queue("bulk"));
        let mut worker = db.start(&["--queues", "bulk=5"]);
        worker.await_line("found waiting greet. These kinds may run there: block, charge, greet, import_feed, log_in, refund, send_newsletter, ship, wait, wait_for, welcome, write");
        db.await_state(id, "completed");
        worker.signal("TERM");
        let run = worker.ended().succeeded();
        assert!(!run.stderr.contains("WARN"), "{run:#?}");
    }

    fn a_typing_error_is_warned_of(db) {
        let db = db.migrated();
        let mut worker = db.start(&["--queues", "mial=3,default,adhoc"]);
        worker.await_line("did you mean `mail`?");
        worker.await_line("worker started");
        worker.signal("TERM");
        let run = worker.ended().succeeded();
        // There is no warning for `adhoc`, which the set-up declares.
        let warnings: Vec<_> = run.stderr.lines().filter(|line| line.contains("WARN")).collect();
        assert_eq!(warnings.len(), 1, "{run:#?}");
        assert!(warnings[0].contains("`mial`") && warnings[0].contains("adhoc, default, mail"), "{run:#?}");
    }

    fn a_misspelt_variable_is_warned_of(db) {
        let db = db.migrated();
        let mut worker =
            worker("fixture-worker").env("DATABASE_URL", &db.url).env("JOBS_SLOT", "3").env("JOBS_POLL_INTERVAL", "1s").start();
        worker.await_line("JOBS_SLOT is unknown and has no effect; did you mean JOBS_SLOTS?");
        worker.await_line("worker started");
        worker.signal("TERM");
        let run = worker.ended().succeeded();
        assert!(!run.stderr.contains("JOBS_POLL_INTERVAL"), "{run:#?}");
    }

    fn default_queues_that_are_not_served_are_named(db) {
        let db = db.migrated();
        let start = |binary: &str, queues: Option<&str>| {
            let mut worker = worker(binary).env("DATABASE_URL", &db.url);
            if let Some(queues) = queues {
                worker = worker.env("JOBS_QUEUES", queues);
            }
            let mut worker = worker.start();
            worker.await_line("worker started");
            worker.signal("TERM");
            worker.ended().succeeded().stderr
        };
        let line = |log: &str| log.lines().find(|line| line.contains("does not serve")).map(str::to_owned);
        // The set-up names `mail` and forgets the other queue. A list in the options is meant so.
        let forgotten = line(&start("forgetful-worker", None)).unwrap();
        assert!(forgotten.contains("WARN") && forgotten.contains("does not serve queue `default`"), "{forgotten}");
        let meant = line(&start("fixture-worker", Some("default=1"))).unwrap();
        assert!(meant.contains("INFO") && meant.contains("does not serve queue `mail`"), "{meant}");
        for queues in [None, Some("m*,default"), Some("*")] {
            assert_eq!(line(&start("fixture-worker", queues)), None, "{queues:?}");
        }
    }

    fn the_doctor_names_them_before_a_deploy(db) {
        let db = db.migrated();
        let doctor = |args: &[&str]| {
            Findings::of(&worker("forgetful-worker").args(["doctor", "--json"]).args(args).env("DATABASE_URL", &db.url).run())
        };
        let (what, repair) = doctor(&["--before-deploy"]).one("unserved_default_queue");
        assert!(what.contains("queue `default`") && repair.contains(".serve(..)"), "{what}: {repair}");
        for args in [&["--before-deploy", "--queues", "mail,default"][..], &[]] {
            assert!(!doctor(args).checks().iter().any(|check| check.contains("default_queue")), "{args:?}");
        }
    }

    fn jobs_that_this_program_cannot_run_are_named(db) {
        let db = db.migrated();
        let table = db.waiting_table();
        db.execute(&format!("insert into {table} (kind, queue, args) values ('other', 'bulk', '{{}}')"));
        let mut worker = db.start(&["--queues", "bulk"]);
        worker.await_line("found waiting only other, which this program has no handler for");
    }

    fn the_doctor_warns_of_it_before_a_deploy(db) {
        let db = db.migrated();
        let found = |queues: &str| Findings::of(&db.run(&["doctor", "--json", "--queues", queues]));
        let (what, repair) = found("mial=3,mail,default").one("unknown_queue");
        assert!(what.starts_with("queue `mial` is served, holds no job") && repair.contains("did you mean `mail`?"), "{what}: {repair}");
        db.enqueue(Greet { name: "x".to_owned() }.queue("bulk"));
        assert_eq!(found("bulk,mail,default").checks(), ["warning:no_worker"]);
    }
}
