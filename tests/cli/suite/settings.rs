//! The commands for what operators set at run time, with real workers.

use fixture_app::{Charge, Greet, Wait, WaitFor};
use serde_json::Value;

use crate::support::http::{address, await_searches};
use crate::support::{Db, Findings, Gate, Run, until, worker};

fn greet() -> Greet {
    Greet { name: "x".to_owned() }
}

/// Runs a command as the user `anna`. The machine of the tests may name no user.
fn run(db: &Db, args: &[&str]) -> Run {
    worker("fixture-worker").args(args).env("DATABASE_URL", &db.url).env("SUDO_USER", "").env("USER", "anna").run()
}

fn json(db: &Db, args: &[&str]) -> Value {
    let args: Vec<&str> = args.iter().copied().chain(["--json"]).collect();
    run(db, &args).succeeded().json()
}

/// How many jobs `list` finds.
fn jobs(db: &Db, filter: &[&str]) -> usize {
    let args: Vec<&str> = ["list"].into_iter().chain(filter.iter().copied()).collect();
    json(db, &args).as_array().unwrap().len()
}

fn state(db: &Db, id: i64) -> String {
    json(db, &["show", &id.to_string()])["state"].as_str().unwrap().to_owned()
}

/// The one worker that lives.
fn worker_id(db: &Db) -> String {
    until(|| json(db, &["workers"])[0]["id"].as_str().map(str::to_owned).ok_or("no worker has registered"))
}

on_each_database! {
    fn a_queue_is_paused_and_all_commands_say_so(db) {
        let db = db.migrated();
        let _worker = db.start(&["--queues", "mail=2,default=2"]);
        let id = worker_id(&db);
        let paused = run(&db, &["queues", "pause", "mail", "--reason", "the mail server moves", "--actor", "ada"]).succeeded().stdout;
        assert!(paused.contains("queue `mail`: paused since") && paused.contains("by ada: the mail server moves"), "{paused}");
        let waiting = db.enqueue(greet());
        let text = run(&db, &["show", &waiting.to_string()]).succeeded().stdout;
        assert!(text.starts_with("queue `mail` is paused since") && text.contains("worker queues resume mail"), "{text}");
        assert_eq!(json(&db, &["show", &waiting.to_string()])["paused"][0]["by"], "ada");
        assert!(run(&db, &["stats"]).succeeded().stdout.starts_with("queue `mail` is paused"));
        assert_eq!(json(&db, &["stats"])["paused"][0]["name"], "mail");
        let findings = Findings::of(&run(&db, &["doctor", "--json"])).checks();
        assert_eq!(findings, ["warning:queue_paused"]);
        let listed = json(&db, &["queues"]);
        assert_eq!((&listed[1]["name"], &listed[1]["workers"], &listed[1]["total_slots"]), (&Value::from("mail"), &Value::from(1), &Value::from(2)));
        assert_eq!(state(&db, waiting), "available");

        let again = run(&db, &["queues", "pause", "mail", "--actor", "bert"]).succeeded().stdout;
        assert!(again.contains("already") && again.contains("by ada"), "{again}");
        assert_eq!(json(&db, &["queues", "resume", "mail"])["changed"], true);
        db.await_state(waiting, "completed");
        assert!(run(&db, &["queues", "resume", "mail"]).succeeded().stdout.contains("already: not paused"));
        assert!(Findings::of(&run(&db, &["doctor", "--json"])).checks().is_empty());
        assert!(run(&db, &["workers", "show", &id[..8]]).succeeded().stdout.contains("it runs nothing now"));
    }

    fn a_drained_queue_is_paused_and_its_jobs_have_ended(db) {
        let db = db.migrated();
        let _worker = db.start(&["--queues", "default=2"]);
        let gate = Gate::closed();
        let running = db.enqueue(WaitFor { file: gate.file() });
        db.await_state(running, "running");
        let early = run(&db, &["queues", "drain", "default", "--timeout", "300ms", "--actor", "ada"]).exited(1).stdout;
        assert!(early.contains("1 job of queue `default` still run") && early.contains("stays paused"), "{early}");
        let mut drain = db.start(&["queues", "drain", "default", "--actor", "ada"]);
        drain.await_line("queue `default` is paused; 1 job left");
        gate.open();
        let done = drain.ended().succeeded();
        assert!(done.stdout.contains("none of its jobs runs"), "{}", done.stdout);
        assert_eq!(state(&db, running), "completed");
        assert_eq!(json(&db, &["queues", "drain", "default"])["running"], 0);
    }

    fn each_queue_is_listed_with_who_serves_it(db) {
        let db = db.migrated();
        assert_eq!(run(&db, &["queues"]).succeeded().stdout, "no queue has jobs or settings, and no live worker serves one\n");
        db.enqueue_many("greet", "lost", 3);
        run(&db, &["queues", "pause", "reports", "--actor", "ada"]).succeeded();
        run(&db, &["queues", "slots", "default", "1", "--actor", "ada"]).succeeded();
        let _worker = db.start(&["--queues", "mail=2,default=4"]);
        let id = worker_id(&db);
        let rows = |listed: &Value| -> Vec<String> {
            let row = |queue: &Value| format!("{} {} {} {} {}", queue["name"], queue["jobs"]["available"]["jobs"], queue["workers"], queue["quiet"], queue["total_slots"]);
            listed.as_array().unwrap().iter().map(|queue| row(queue).replace('"', "")).collect()
        };
        assert_eq!(rows(&json(&db, &["queues"])), ["default 0 1 0 1", "lost 3 0 0 0", "mail 0 1 0 2", "reports 0 0 0 0"]);
        let text = run(&db, &["queues"]).succeeded().stdout;
        assert!(text.contains("jobs wait in queue `lost`, and no worker claims them: `worker run --queues lost`"), "{text}");
        // All commands have the slots that apply now.
        for command in [&["workers"][..], &["workers", "show", &id], &["stats"]] {
            let text = run(&db, command).succeeded().stdout;
            assert!(text.contains("default=1, mail=2"), "{command:?}: {text}");
        }
        run(&db, &["workers", "quiet", &id, "--actor", "ada"]).succeeded();
        assert_eq!(rows(&json(&db, &["queues"]))[2], "mail 0 0 1 0");
        assert!(run(&db, &["queues"]).succeeded().stdout.contains("nobody, 1 quiet"));
        for command in ["workers", "stats"] {
            let text = run(&db, &[command]).succeeded().stdout;
            assert!(text.contains("asked to be quiet by ada"), "{text}");
        }
        let warned = run(&db, &["queues", "resume", "mail", "--actor", "ada"]).succeeded();
        assert!(warned.stderr.contains("drains or was asked to be quiet or to stop"), "{warned:#?}");
    }

    fn slots_are_set_and_given_back(db) {
        let db = db.migrated();
        let set = run(&db, &["queues", "slots", "mail", "3", "--actor", "ada"]).succeeded();
        assert!(set.stdout.contains("queue `mail`: not paused; 3 slots in each worker"), "{}", set.stdout);
        assert!(set.stderr.contains("no live worker serves the queue `mail`"), "{}", set.stderr);
        assert_eq!(json(&db, &["queues"])[0]["slots"], 3);
        assert_eq!(json(&db, &["queues", "slots", "mail", "default"])["changed"], true);
        run(&db, &["queues", "slots", "mail", "many"]).exited(2).complained(&["from 0 to 10000", "default"]);
        run(&db, &["queues", "slots", "mail", "10001"]).exited(2).complained(&["10000"]);
        run(&db, &["queues", "pause", ""]).exited(2).complained(&["must not be empty"]);
    }

    fn a_paused_kind_waits_and_others_go_on(db) {
        let db = db.migrated();
        let mut worker = db.start(&["--queues", "default=2"]);
        worker_id(&db);
        run(&db, &["kinds", "pause", "charge", "--reason", "a bug", "--actor", "ada"]).succeeded();
        worker.await_line("kind `charge` is paused");
        let waiting = db.enqueue(Charge { card: "1234".to_owned() });
        let other = db.enqueue(Wait { millis: 0 });
        db.await_state(other, "completed");
        assert_eq!(state(&db, waiting), "available");
        let listed = json(&db, &["kinds"]);
        assert!(listed.as_array().unwrap().iter().any(|kind| kind["name"] == "charge" && kind["paused"]["reason"] == "a bug"), "{listed}");
        run(&db, &["kinds", "resume", "charge"]).succeeded();
        db.await_state(waiting, "discarded");
        let unknown = run(&db, &["kinds", "pause", "chagre", "--actor", "ada"]).succeeded().stderr;
        assert!(unknown.contains("has no job of kind `chagre`"), "{unknown}");
    }

    fn a_setting_of_a_renamed_kind_applies_to_all_of_its_names(db) {
        let db = db.migrated();
        let run = |args: &[&str]| worker("renamed-worker").args(args).env("DATABASE_URL", &db.url).env("JOBS_ACTOR", "ada").run();
        let paused = run(&["kinds", "pause", "greet"]).succeeded().stdout;
        assert!(paused.starts_with("kind `greet` and its other name `hail`: paused "), "{paused}");
        let listed = run(&["kinds"]).succeeded().stdout;
        let rows: Vec<Vec<&str>> = listed.lines().map(|line| line.split_whitespace().take(4).collect()).collect();
        assert_eq!(rows[1..], [vec!["greet", "alias", "of", "hail"], vec!["hail", "yes", "paused", "since"]], "{listed}");
        let again = run(&["kinds", "pause", "hail", "--json"]).succeeded().json();
        assert_eq!((&again["changed"], &again["other_names"]), (&false.into(), &Value::from(vec!["greet"])));
        // The jobs of the old program wait, too.
        let waiting = db.enqueue(greet());
        let mut old = db.start(&[]);
        let other = db.enqueue(Wait { millis: 0 });
        db.await_state(other, "completed");
        assert_eq!(state(&db, waiting), "available");
        let resumed = run(&["kinds", "resume", "hail"]).succeeded().stdout;
        assert_eq!(resumed, "kind `hail` and its other name `greet`: not paused\n");
        db.await_state(waiting, "completed");
        old.kill();
        let set = run(&["retention", "set", "completed", "7d", "--kind", "hail"]).succeeded().stdout;
        assert_eq!(set, "`hail` and `greet` completed jobs are kept for 7 d 0 h\n");
        assert_eq!(json(&db, &["retention"]).as_array().unwrap().len(), 2);
        run(&["retention", "unset", "completed", "--kind", "greet"]).succeeded();
        assert!(json(&db, &["retention"]).as_array().unwrap().is_empty());
    }

    fn a_worker_is_asked_to_be_quiet_and_to_stop(db) {
        let db = db.migrated();
        let mut worker = db.start(&["--queues", "default=2", "--lease", "10s"]);
        let (id, gate) = (worker_id(&db), Gate::closed());
        let running = db.enqueue(WaitFor { file: gate.file() });
        db.await_state(running, "running");
        let shown = json(&db, &["workers", "show", &id]);
        assert_eq!((&shown["running"][0]["id"], &shown["slots"]["default"]), (&Value::from(running), &Value::from(2)));
        let quiet = run(&db, &["workers", "quiet", &id, "--actor", "ada"]).succeeded().stdout;
        assert!(quiet.contains("asked to be quiet by ada"), "{quiet}");
        worker.await_line("asked this worker to be quiet");
        let waiting = db.enqueue(Wait { millis: 1 });
        gate.open();
        db.await_state(running, "completed");
        assert_eq!(state(&db, waiting), "available");
        run(&db, &["workers", "stop", &id, "--actor", "ada"]).succeeded();
        worker.await_line("worker stopped");
        run(&db, &["workers", "stop", &id]).exited(1).complained(&["there is no worker"]);
        run(&db, &["workers", "show", "nonsense"]).exited(1).complained(&["there is no worker"]);
    }

    fn retention_is_set_listed_and_removed(db) {
        let db = db.migrated();
        let set = run(&db, &["retention", "set", "discarded", "7d", "--kind", "charge", "--actor", "ada"]).succeeded().stdout;
        assert_eq!(set, "`charge` discarded jobs are kept for 7 d 0 h\n");
        run(&db, &["retention", "set", "completed", "forever"]).succeeded();
        run(&db, &["retention", "set", "cancelled", "none"]).succeeded();
        let listed = json(&db, &["retention"]);
        assert_eq!(listed.as_array().unwrap().len(), 3);
        assert_eq!((&listed[0]["kind"], &listed[0]["keep_seconds"]), (&Value::Null, &Value::Null));
        assert_eq!((&listed[2]["kind"], &listed[2]["keep_seconds"]), (&Value::from("charge"), &Value::from(604_800.0)));
        assert_eq!(json(&db, &["retention", "unset", "discarded", "--kind", "charge"])["changed"], true);
        assert_eq!(json(&db, &["retention", "unset", "discarded", "--kind", "charge"])["changed"], false);
        run(&db, &["retention", "set", "running", "1d"]).exited(2).complained(&["completed, cancelled or discarded"]);
        for command in [&["retention", "set", "failed", "1d"][..], &["retention", "unset", "failed"]] {
            let refused = run(&db, command).exited(2).complained(&["\"failed\" is not a state", "completed, cancelled or discarded"]);
            refused.never_said("available");
        }
        run(&db, &["retention", "set", "completed", "soon"]).exited(2).complained(&["not a duration", "forever"]);
        // An operator's cancel follows it, too.
        let id = db.enqueue(greet());
        run(&db, &["cancel", &id.to_string()]).succeeded();
        let _worker = db.start(&["--retain-discarded", "0s", "--queues", "default"]);
        let discarded = db.enqueue(Charge { card: "1234".to_owned() });
        until(|| (jobs(&db, &[]) == 0).then_some(()).ok_or(format!("jobs {id} and {discarded} are still there")));
    }

    fn an_operators_schedule_is_added_changed_triggered_and_removed(db) {
        let db = db.migrated();
        let add = ["schedules", "add", "greet Bo", "greet", "--cron", "0 30 2 * * *", "--timezone", "Europe/Paris", "--args", r#"{"name":"Bo"}"#, "--priority", "-2", "--actor", "ada"];
        assert!(run(&db, &add).succeeded().stdout.contains("schedule `greet Bo`: it ticks from now on"));
        let exists = [
            "the schedule `greet Bo` exists already: it enqueues jobs of kind `greet` at `0 30 2 * * *` (Europe/Paris); nothing was changed",
            "`worker schedules change 'greet Bo'` changes when it ticks",
        ];
        run(&db, &add).exited(1).complained(&exists);
        let other = ["schedules", "add", "greet Bo", "charge", "--cron", "0 0 4 * * *", "--args", r#"{"card":"4242"}"#, "--actor", "bert"];
        run(&db, &other).exited(1).complained(&exists).never_said("0 0 4");
        let kept = json(&db, &["schedules", "show", "greet Bo"]);
        assert_eq!((&kept["kind"], &kept["expression"], &kept["added_by"], &kept["priority"]), (&Value::from("greet"), &Value::from("0 30 2 * * *"), &Value::from("ada"), &Value::from(-2)));
        let text = run(&db, &["schedules"]).succeeded().stdout;
        assert!(text.contains("0 30 2 * * * in Europe/Paris") && text.contains("added by      ada"), "{text}");
        assert_eq!(json(&db, &["schedules", "show", "greet Bo"])["next"].as_array().unwrap().len(), 5);
        run(&db, &["schedules", "change", "greet Bo", "--cron", "0 0 3 * * *", "--actor", "bert"]).succeeded();
        assert!(run(&db, &["schedules", "change", "greet Bo", "--cron", "0 0 3 * * *"]).succeeded().stdout.contains("nothing was changed"));
        assert_eq!(json(&db, &["schedules"])[0]["changed_by"], "bert");

        run(&db, &["schedules", "trigger", "greet Bo", "--actor", "bert"]).succeeded();
        let dry = run(&db, &["schedules", "backfill", "greet Bo", "--from", "2026-01-01", "--to", "2026-01-10T12:00:00Z", "--dry-run"]).succeeded().stdout;
        assert_eq!(dry, "10 jobs of kind `greet`, for the ticks from 2026-01-01 02:00:00Z to 2026-01-10 02:00:00Z\n");
        assert_eq!(jobs(&db, &[]), 1);
        run(&db, &["schedules", "backfill", "greet Bo", "--from", "2026-01-01", "--to", "2026-01-10"]).exited(1).complained(&["9 jobs", "nothing was changed"]);
        run(&db, &["schedules", "backfill", "greet Bo", "--from", "2026-01-01", "--to", "2026-01-10", "--yes"]).succeeded();
        let listed = json(&db, &["list", "--kind", "greet"]);
        assert_eq!(listed.as_array().unwrap().len(), 10);
        assert_eq!((&listed[0]["queue"], &listed[0]["priority"]), (&Value::from("mail"), &Value::from(-2)));
        let _worker = db.start(&["--queues", "mail=2"]);
        until(|| (jobs(&db, &["--state", "completed"]) == 10).then_some(()).ok_or("the backfilled jobs are not found"));
        assert_eq!(json(&db, &["schedules"])[0]["last_run"]["state"], "completed");

        run(&db, &["schedules", "pause", "greet Bo", "--reason", "a holiday", "--actor", "ada"]).succeeded();
        assert_eq!(json(&db, &["schedules"])[0]["paused"]["reason"], "a holiday");
        run(&db, &["schedules", "resume", "greet Bo"]).succeeded();
        run(&db, &["schedules", "reset", "greet Bo"]).succeeded();
        run(&db, &["schedules", "remove", "greet Bo"]).succeeded();
        assert_eq!(run(&db, &["schedules"]).succeeded().stdout, "no schedules\n");
    }

    fn an_operators_interval_is_added_changed_and_refused_in_words(db) {
        let db = db.migrated();
        let schedules = |args: &[&str]| run(&db, &[&["schedules"], args, &["--actor", "ada"]].concat());
        schedules(&["add", "often", "greet", "--every", "1h 30m", "--args", r#"{"name":"Bo"}"#]).succeeded();
        let shown = json(&db, &["schedules", "show", "often"]);
        assert_eq!(shown["expression"], "@every 90m");
        let next = shown["next"][0]["at"].as_str().unwrap();
        assert!([":00:00Z", ":30:00Z"].iter().any(|end| next.ends_with(end)), "{next}");
        schedules(&["change", "often", "--every", "2h"]).succeeded();
        assert_eq!(json(&db, &["schedules", "show", "often"])["expression"], "@every 2h");
        for (args, said) in [
            (&["--every", "90"][..], "has no unit"),
            (&["--every", "0s"], "is zero"),
            (&["--every", "500ms"], "has the unit \"ms\""),
            (&["--every", "9m", "--cron", "* * * * *"], "cannot be used with"),
            (&["--every", "9m", "--timezone", "UTC"], "cannot be used with"),
            (&["--every", "@hourly"], "a cron expression belongs in `cron`"),
            (&["--cron", "@every 9m"], "such as `--every \"9m\"`"),
            (&["--cron", "@every 1h 30m"], "such as `--every \"1h 30m\"`"),
            (&["--cron", "@every"], "such as `--every \"90m\"`"),
            (&["--cron", "@everyone"], "\"@everyone\" is not one of @hourly"),
            (&["--cron", "@hourly 5"], "@hourly is a whole expression; remove \"5\""),
            (&[], "--cron"),
        ] {
            schedules(&[&["add", "other", "greet"], args].concat()).exited(2).complained(&[said]);
        }
    }

    fn an_added_schedule_ticks(db) {
        let db = db.migrated();
        run(&db, &["schedules", "add", "often", "greet", "--cron", "* * * * * *", "--args", r#"{"name":"Bo"}"#, "--actor", "ada"]).succeeded();
        let _worker = db.start(&["--queues", "mail=2"]);
        until(|| (jobs(&db, &["--state", "completed"]) >= 3).then_some(()).ok_or("it does not tick"));
    }

    fn schedules_that_cannot_work_are_refused(db) {
        let db = db.migrated();
        let add = |rest: &[&str]| {
            let mut args = vec!["schedules", "add", "mine"];
            args.extend(rest);
            run(&db, &args)
        };
        add(&["greet", "--cron", "0 0 30 2 * *"]).exited(2).complained(&["cron expression"]);
        for interval in ["*/90 * * * *", "every 90 minutes", "90m"] {
            add(&["greet", "--cron", interval]).exited(2).complained(&["`every = \"90m\"`"]);
        }
        add(&["greet", "--cron", "0 0 2 * * *", "--timezone", "Paris"]).exited(2).complained(&["unknown time zone \"Paris\""]);
        add(&["greet", "--cron", "0 0 2 * * *", "--args", "7"]).exited(2).complained(&["JSON object"]);
        add(&["greet", "--cron", "0 0 2 * * *"]).exited(2).complained(&["--args: no job of kind `greet`", "missing field `name`"]);
        add(&["greet", "--cron", "0 0 2 * * *", "--args", r#"{"name":"x","nmae":"4242"}"#]).exited(2).complained(&["there is no argument `nmae` (did you mean `name`?)"]).never_said("4242");
        add(&["greet", "--cron", "0 0 2 * * *", "--catch-up", "some"]).exited(2).complained(&["unknown catch_up"]);
        add(&["greet"]).exited(2).complained(&["--cron"]);
        assert_eq!(json(&db, &["schedules"]), serde_json::json!([]));
        add(&["gret", "--cron", "0 0 2 * * *"]).exited(2).complained(&["this program has no job of kind `gret`; did you mean `greet`?"]);
        assert_eq!(json(&db, &["schedules"]), serde_json::json!([]));
        add(&["greet", "--cron", "0 0 2 * * *", "--args", r#"{"name":"Bo"}"#, "--actor", "ada"]).succeeded();
        run(&db, &["schedules", "change", "mine"]).exited(2).complained(&["--cron"]);
        run(&db, &["schedules", "change", "mine", "--cron", "soon"]).exited(2).complained(&["cron expression"]);
        run(&db, &["schedules", "change", "mine", "--cron", "61 * * * *"]).exited(2).complained(&["minute 61", "`min hour day month weekday`", "\"0 2 * * *\""]);
        for command in ["show", "pause", "resume", "trigger", "remove", "reset"] {
            run(&db, &["schedules", command, "other"]).exited(1).complained(&["there is no schedule \"other\""]);
        }
        run(&db, &["schedules", "backfill", "mine", "--from", "yesterday"]).exited(2).complained(&["is not a time"]);
        run(&db, &["schedules", "backfill", "mine", "--from", "2026-01-02", "--to", "2026-01-01"]).exited(2).complained(&["--from is later"]);
    }

    fn a_frozen_database_keeps_its_settings_and_takes_new_ones(db) {
        let db = db.migrated();
        run(&db, &["queues", "pause", "mail", "--actor", "ada"]).succeeded();
        run(&db, &["freeze", "--reason", "a copy", "--actor", "ada"]).succeeded();
        run(&db, &["kinds", "pause", "charge", "--actor", "ada"]).succeeded();
        run(&db, &["queues", "resume", "mail", "--actor", "ada"]).succeeded();
        let mut worker = db.start(&["--queues", "mail=2", "--poll-interval", "50ms", "--listen", "127.0.0.1:0"]);
        let id = db.enqueue(greet());
        await_searches(&address(&mut worker));
        assert_eq!(state(&db, id), "available");
        run(&db, &["thaw"]).succeeded();
        db.await_state(id, "completed");
        assert_eq!(json(&db, &["kinds"]).as_array().unwrap().iter().filter(|kind| kind["paused"].is_object()).count(), 1);
    }
}
