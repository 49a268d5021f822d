//! `export` and `import`, and the groups of `failures`.

use std::fs;
use std::time::Duration;

use fixture_app::{Charge, Greet, LogIn, Welcome};
use jobs::Job as _;
use jobs::rules::Limit;
use serde_json::{Value, json};

use crate::support::{Db, Run, Scratch, until, worker};

const SECRET: &str = "hunter2-the-secret";

fn lines(run: &Run) -> Vec<Value> {
    run.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// What an import keeps of a job.
fn kept(job: &Value) -> Value {
    let fields = ["kind", "queue", "priority", "max_attempts", "tags", "args"];
    fields.iter().map(|field| ((*field).to_owned(), job[*field].clone())).collect::<serde_json::Map<_, _>>().into()
}

fn write(scratch: &Scratch, text: impl AsRef<[u8]>) -> String {
    let path = scratch.path().join("jobs.jsonl");
    fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

/// Runs `import` as the user `anna`.
fn import(db: &Db, args: &[&str]) -> Run {
    worker("fixture-worker")
        .args(["import"])
        .args(args)
        .env("DATABASE_URL", &db.url)
        .env("SUDO_USER", "")
        .env("USER", "anna")
        .run()
}

fn count(db: &Db) -> u64 {
    db.json(&["list", "--count"])["jobs"].as_u64().unwrap()
}

on_each_database! {
    fn an_imported_job_has_its_limit_again(db) {
        let db = db.migrated();
        db.enqueue(Greet { name: "ann".to_owned() }.concurrency(Limit::new("mail", 2).key(7)));
        let exported = db.run(&["export"]).succeeded();
        let scratch = Scratch::new();
        import(&db, &[&write(&scratch, &exported.stdout)]).succeeded();
        let rules: Vec<Value> = lines(&db.run(&["export"]).succeeded()).iter().map(|job| job["rules"].clone()).collect();
        let limit = json!([{ "name": "mail", "key": "[7]", "rule": { "concurrency": { "most": 2 } } }]);
        assert_eq!(rules, vec![limit; 2]);
    }

    fn an_imported_job_has_its_key_and_expires_again(db) {
        let db = db.migrated();
        db.enqueue(Welcome { user_id: 7 });
        db.enqueue(Welcome { user_id: 8 }.delay(Duration::from_secs(3600)).expires(Duration::from_secs(60)));
        let exported = db.run(&["export"]).succeeded();
        let jobs = lines(&exported);
        assert_eq!((&jobs[0]["unique_key"]["name"], &jobs[0]["unique_key"]["key"]), (&json!("welcome"), &json!("[7]")));
        assert_eq!((&jobs[0]["start_by"], jobs[1]["start_by"].is_string()), (&Value::Null, true));

        // The keys are taken, so these lines are left out, and named.
        let scratch = Scratch::new();
        let other = r#"{"kind":"welcome","args":{"user_id":7}}"#;
        let file = write(&scratch, format!("{}{other}
{}", exported.stdout, exported.stdout));
        let ids: Vec<i64> = jobs.iter().map(|job| job["id"].as_i64().unwrap()).collect();
        let imported = import(&db, &[&file, "--json"]).succeeded().complained(&[
            &format!("line 1 was not imported: job {} has its unique key [7] of `welcome`", ids[0]),
            &format!("line 5 was not imported: job {} has its unique key [8] of `welcome`", ids[1]),
        ]);
        let imported = imported.json();
        assert_eq!((&imported["imported"], &imported["taken"]), (&json!(1), &json!(4)));
        assert_eq!(count(&db), 3);

        db.run(&["delete", "--all", "--yes"]).succeeded();
        let said = import(&db, &[&write(&scratch, &exported.stdout)]).succeeded();
        assert!(said.stdout.starts_with("imported 2 jobs, with the ids "), "{}", said.stdout);
        let back = lines(&db.run(&["export"]).succeeded());
        let beside = |jobs: &[Value]| jobs.iter().map(|job| (job["unique_key"].clone(), job["start_by"].clone())).collect::<Vec<_>>();
        assert_eq!(beside(&back), beside(&jobs));
        // An enqueue finds the imported job.
        db.enqueue(Welcome { user_id: 8 });
        assert_eq!(count(&db), 2);
        let said = import(&db, &[&write(&scratch, &exported.stdout)]).succeeded();
        assert_eq!(said.stdout, "nothing was imported
left out 2 jobs whose unique keys other jobs have
");
    }

    fn what_is_exported_can_be_imported(db) {
        let db = db.migrated();
        let odd = "tab\t line\n quote\" back\\ \u{1f600} \u{202e}".to_owned();
        db.enqueue(Greet { name: odd.clone() });
        db.enqueue(Greet { name: "later".to_owned() }.delay(Duration::from_secs(3600)).priority(-5).tags(["vip", "a b"]).max_attempts(3));
        // More digits than a number of JSON has in most programs, which must stay.
        db.execute(&format!("insert into {} (kind, queue, args) values ('other', 'adhoc', '{{\"n\": 1.00000000000000000001,  \"m\":12345678901234567890123}}')", db.waiting_table()));
        db.enqueue_many("wait", "default", 450);
        let exported = db.run(&["export"]).succeeded();
        assert!(exported.stderr.contains("exported 453 jobs"), "{}", exported.stderr);
        let jobs = lines(&exported);
        let ids: Vec<i64> = jobs.iter().map(|job| job["id"].as_i64().unwrap()).collect();
        assert!(jobs.len() == 453 && ids.is_sorted(), "oldest first: {ids:?}");
        assert!(exported.stdout.contains(r#"{"n": 1.00000000000000000001,  "m":12345678901234567890123}"#));
        assert_eq!(lines(&db.run(&["export", "--kind", "greet", "--json"]).succeeded()).len(), 2);

        let scratch = Scratch::new();
        let file = write(&scratch, &exported.stdout);
        db.run(&["delete", "--all", "--yes"]).succeeded();
        assert_eq!(import(&db, &[&file, "--dry-run"]).succeeded().stdout, "nothing was imported; the lines contain 453 jobs\n");
        assert_eq!(count(&db), 0);
        let imported = import(&db, &[&file, "--json"]).succeeded().json();
        assert_eq!((&imported["imported"], &imported["jobs"], &imported["skipped"]), (&json!(453), &json!(453), &json!(0)));
        let again = db.run(&["export"]).succeeded();
        let back = lines(&again);
        assert_eq!(back.iter().map(kept).collect::<Vec<_>>(), jobs.iter().map(kept).collect::<Vec<_>>());
        assert!(again.stdout.contains(r#"{"n": 1.00000000000000000001,  "m":12345678901234567890123}"#));
        assert_eq!((&back[1]["run_at"], &back[1]["state"]), (&jobs[1]["run_at"], &json!("scheduled")));
        assert_eq!((&back[0]["id"], &back[452]["id"]), (&imported["first_id"], &imported["last_id"]));
        let audit = db.json(&["audit", "--limit", "1"]);
        assert_eq!((&audit[0]["action"], &audit[0]["actor"], &audit[0]["target"]), (&json!("import"), &json!("anna"), &json!("453 jobs")));

        let input = worker("fixture-worker").args(["import", "-"]).env("DATABASE_URL", &db.url).run_with_input(&exported.stdout);
        assert!(input.succeeded().stdout.starts_with("imported 453 jobs, with the ids "));
        assert_eq!(count(&db), 906);
    }

    fn a_wrong_line_is_named_and_nothing_is_imported(db) {
        let db = db.migrated();
        let scratch = Scratch::new();
        let good = r#"{"kind":"greet","queue":"mail","args":{"name":"x"}}"#;
        let mut text = vec![good.to_owned(); 1200];
        text[700] = "{\"kind\":\"greet\",\"args\":{\"name\":\"\u{1b}[2J".to_owned();
        text[1100] = r#"{"kind":"greet","args":{},"prioriy":7}"#.to_owned();
        text[1101] = format!("{good}{good}");
        text[1150] = "x".repeat(5_000_000);
        let file = write(&scratch, text.join("\n"));
        let refused = import(&db, &[&file]).exited(1).never_said("\u{1b}");
        let refused = refused.complained(&["nothing was imported", "line 701: ", "line 1101: unknown field `prioriy`", "line 1102: trailing characters", "line 1151: it is longer"]);
        assert_eq!((refused.stdout.as_str(), count(&db)), ("", 0));
        let mut bytes = good.as_bytes().to_vec();
        bytes.extend(b"\n{\"kind\":\"\xff\xfe\",\"args\":{}}\n");
        import(&db, &[&write(&scratch, bytes)]).exited(1).complained(&["line 2: "]);
        let many = import(&db, &[&write(&scratch, "x\n".repeat(30))]).exited(1).complained(&["line 10: ", "and 20 more lines"]);
        assert!(!many.stderr.contains("line 11: "), "{}", many.stderr);
        import(&db, &["/nothing/here.jsonl"]).exited(1).complained(&["reading /nothing/here.jsonl"]);
        assert_eq!(import(&db, &[&write(&scratch, "\n \n")]).succeeded().stdout, "the lines contain no job to import\n");
        assert_eq!(count(&db), 0);
        assert_eq!(import(&db, &[&write(&scratch, format!("x\n{good}\n")), "--from-line", "2"]).succeeded().stdout.lines().count(), 1);
        assert_eq!(count(&db), 1);
    }

    fn jobs_that_have_ended_are_imported_only_if_it_is_said(db) {
        let db = db.migrated();
        let scratch = Scratch::new();
        db.enqueue(Greet { name: "x".to_owned() });
        let done = db.enqueue(Greet { name: "x".to_owned() });
        db.run(&["cancel", &done.to_string()]).succeeded();
        let file = write(&scratch, db.run(&["export"]).succeeded().stdout);
        import(&db, &[&file]).exited(1).complained(&["line 2: the job is cancelled", "--others skip"]);
        let skipped = import(&db, &[&file, "--others", "skip"]).succeeded().stdout;
        assert!(skipped.starts_with("imported 1 job,") && skipped.ends_with("left out 1 job that ran or had ended\n"), "{skipped}");
        assert_eq!(import(&db, &[&file, "--others", "enqueue", "--json"]).succeeded().json()["imported"], 2);
        assert_eq!(db.json(&["list", "--count", "--state", "available"])["jobs"], 4);
    }

    fn an_export_whose_reader_has_gone_does_not_say_that_it_is_complete(db) {
        let db = db.migrated();
        db.enqueue(Greet { name: "ann".to_owned() });
        let export = worker("fixture-worker").args(["export"]).env("DATABASE_URL", &db.url).run_into_closed_pipe().succeeded();
        export.complained(&["the export is not complete"]).never_said("exported 1 job");
    }

    fn secret_arguments_are_in_no_export(db) {
        let db = db.migrated();
        db.enqueue(LogIn { user: "ada".to_owned(), password: SECRET.to_owned() });
        let exported = db.run(&["export"]).succeeded().never_said(SECRET).complained(&["secret arguments of 1 job are left out"]);
        assert_eq!((&lines(&exported)[0]["redacted"], &lines(&exported)[0]["args"]["user"]), (&json!(true), &json!("ada")));
        let scratch = Scratch::new();
        let file = write(&scratch, &exported.stdout);
        import(&db, &[&file]).exited(1).complained(&["line 1: ", "secret arguments", "log_in"]);
        assert_eq!(count(&db), 1);
    }

    fn a_line_that_the_database_refuses_is_named_and_the_lines_before_it_are_kept(db) {
        let db = db.migrated();
        // As an application may do it with a constraint or a trigger.
        if db.url.starts_with("sqlite") {
            db.execute("create trigger no_odd before insert on jobs.job when new.queue = 'odd' begin select raise(abort, 'no odd jobs'); end");
        } else {
            db.execute("alter table jobs.ready add constraint no_odd check (queue <> 'odd')");
        }
        let scratch = Scratch::new();
        let text: String = (1..=9).map(|n| format!("{{\"kind\":\"greet\",\"queue\":\"{}\",\"args\":{{}}}}\n", if n == 6 { "odd" } else { "mail" })).collect();
        let file = write(&scratch, text);
        import(&db, &[&file]).exited(1).complained(&["line 6: ", "odd", "5 jobs were imported before", "--from-line 6"]);
        assert_eq!(count(&db), 5);
        assert!(import(&db, &[&file, "--from-line", "7"]).succeeded().stdout.starts_with("imported 3 jobs"));
    }

    fn an_interrupted_import_says_where_to_go_on(db) {
        let db = db.migrated();
        let scratch = Scratch::new();
        let file = write(&scratch, "{\"kind\":\"greet\",\"queue\":\"mail\",\"args\":{\"name\":\"x\"}}\n".repeat(6000));
        // The first batch waits, so that the signal comes in the middle.
        let held = db.hold_writes();
        let command = worker("fixture-worker").args(["import", &file]).env("DATABASE_URL", &db.url).start();
        command.await_handler_of_sigint();
        command.signal("INT");
        drop(held);
        let run = command.ended().exited(1);
        let next: u64 = run.stdout.split("--from-line ").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
        assert!(run.stdout.starts_with("interrupted: ") && next > 1 && next % 1000 == 1, "{run:#?}");
        let rest = import(&db, &[&file, "--from-line", &next.to_string(), "--json"]).succeeded().json();
        assert_eq!(rest["imported"], 6000 - (next - 1));
        assert_eq!(db.run(&["export"]).succeeded().stdout.lines().count(), 6000);
    }

    fn failures_are_grouped_and_a_group_is_retried_or_discarded(db) {
        let db = db.migrated();
        assert_eq!(db.run(&["failures"]).succeeded().stdout, "no failure is stored\n");
        let charges = [(); 3].map(|()| db.enqueue(Charge { card: SECRET.to_owned() }));
        // These have an attempt left.
        let greetings = [(); 2].map(|()| db.enqueue(Greet { name: String::new() }));
        let worker = db.start(&["--queues", "default,mail", "--poll-interval", "50ms"]);
        charges.iter().for_each(|id| { db.await_state(*id, "discarded"); });
        greetings.iter().for_each(|id| { db.await_state(*id, "retrying"); });
        worker.signal("TERM");
        worker.ended().succeeded();

        let groups = db.json(&["failures"])["groups"].clone();
        let group = |kind: &str| groups.as_array().unwrap().iter().find(|group| group["kind"] == kind).unwrap().clone();
        let (charge, greet) = (group("charge"), group("greet"));
        assert_eq!((&charge["failures"], &charge["jobs"], &charge["discarded"], &charge["retrying"]), (&json!(3), &json!(3), &json!(3), &json!(0)));
        assert_eq!((&greet["jobs"], &greet["retrying"], &greet["message"]), (&json!(2), &json!(2), &json!("nothing to say")));
        let text = db.run(&["failures", "--kind", "charge"]).succeeded().never_said(SECRET).stdout;
        assert!(text.contains("\n    the bank is closed\n") && !text.contains("nothing to say") && text.contains("worker failures retry"), "{text}");
        assert_eq!(db.json(&["failures", "--kind", "none"])["groups"], json!([]));
        assert_eq!(db.json(&["failures", "--limit", "1"])["groups"].as_array().unwrap().len(), 1);

        let fingerprint = |group: &Value| group["fingerprint"].to_string();
        let dry = db.json(&["failures", "retry", &fingerprint(&charge), "--dry-run"]);
        assert_eq!((&dry["matched"]["jobs"], &dry["dry_run"]), (&json!(3), &json!(true)));
        assert_eq!(db.json(&["failures", "retry", &fingerprint(&charge), "--kind", "greet", "--yes"])["changed"], 0);
        assert_eq!(db.json(&["failures", "retry", &fingerprint(&charge), "--kind", "charge", "--yes"])["changed"], 3);
        assert_eq!(db.json(&["failures", "discard", &fingerprint(&greet), "--yes"])["changed"], 2);
        assert_eq!(db.json(&["list", "--count", "--kind", "charge", "--state", "available"])["jobs"], 3);
        assert_eq!(db.json(&["list", "--count", "--kind", "greet", "--state", "discarded"])["jobs"], 2);
        db.run(&["failures", "retry", "x"]).exited(2).complained(&["x"]);
    }

    fn show_has_every_attempt(db) {
        let db = db.migrated();
        let id = db.enqueue(Charge { card: "x".to_owned() });
        let worker = db.start(&["--queues", "default", "--poll-interval", "50ms"]);
        db.await_state(id, "discarded");
        db.run(&["retry", &id.to_string()]).succeeded();
        until(|| {
            let shown = db.json(&["show", &id.to_string()]);
            if shown["attempts"].as_array().unwrap().len() == 2 { Ok(()) } else { Err(shown) }
        });
        let done = db.enqueue(Greet { name: "x".to_owned() });
        worker.signal("TERM");
        worker.ended().succeeded();
        let shown = db.json(&["show", &id.to_string()]);
        let attempts = shown["attempts"].as_array().unwrap();
        assert_eq!(attempts.iter().map(|attempt| attempt["attempt"].as_i64().unwrap()).collect::<Vec<_>>(), [1, 2]);
        // Without the zone, a time without a fraction of a second is before the times of the same second that have one.
        let time = |attempt: &Value, name: &str| attempt[name].as_str().unwrap().trim_end_matches('Z').to_owned();
        assert!(attempts.iter().all(|attempt| attempt["end"] == json!({"failed": "error"}) && attempt["error"] == "the bank is closed" && attempt["worker"].is_string() && time(attempt, "started_at") <= time(attempt, "ended_at")), "{shown}");
        let text = db.run(&["show", &id.to_string()]).succeeded().stdout;
        assert!(text.contains("\nattempts\n  ATTEMPT  END") && text.contains("TOOK"), "{text}");
        assert_eq!(db.json(&["show", &done.to_string()])["attempts"], json!([]));
    }
}
