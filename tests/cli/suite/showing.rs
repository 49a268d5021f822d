//! `list`, `show`, `retry`, `cancel` and `stats`.

use fixture_app::{Charge, Greet, HOUR, LogIn, Wait, Write};
use jobs::Job as _;
use jobs::{Database, JobId, JobState};
use serde_json::json;
use std::collections::BTreeSet;
use std::time::Duration;

use crate::support::{Db, LIMIT, Run, Terminal, until, worker};

/// Arguments that only `list`, `show` and `export` may print.
const SECRET: &str = "ada@example.org";

/// Enqueues a greeting that waits, one for later, and a charge that is discarded.
fn three_jobs(db: &Db) -> [i64; 3] {
    let waiting = db.enqueue(Greet { name: SECRET.to_owned() });
    let later =
        db.enqueue(Greet { name: SECRET.to_owned() }.delay(Duration::from_secs(3600)).priority(-5).tags(["vip"]));
    let failed = db.enqueue(Charge { card: SECRET.to_owned() });
    let worker = db.start(&["--queues", "default", "--poll-interval", "50ms"]);
    db.await_state(failed, "discarded");
    worker.signal("TERM");
    worker.ended().succeeded().never_said(SECRET);
    [waiting, later, failed]
}

fn ids(run: &Run) -> Vec<i64> {
    run.json().as_array().unwrap().iter().map(|job| job["id"].as_i64().unwrap()).collect()
}

on_each_database! {
    fn list_filters_and_shows_arguments_and_errors(db) {
        let db = db.migrated();
        assert_eq!(db.run(&["list"]).succeeded().stdout, "no job matches\n");
        let [waiting, later, failed] = three_jobs(&db);
        let list = |args: &[&str]| ids(&db.run(&[&["list", "--json"], args].concat()).succeeded());
        assert_eq!(list(&[]), [failed, later, waiting]);
        assert_eq!(list(&["--state", "discarded"]), [failed]);
        assert_eq!(list(&["--queue", "mail"]), [later, waiting]);
        assert_eq!(list(&["--kind", "charge"]), [failed]);
        assert_eq!(list(&["--kind", "charge", "--state", "available"]), [0i64; 0]);
        assert_eq!(list(&["--limit", "1"]), [failed]);

        let table = db.run(&["list", "--limit", "2"]).succeeded().stdout;
        let mut lines = table.lines();
        assert!(lines.next().unwrap().split_whitespace().eq("ID STATE AT QUEUE KIND PRIORITY ATTEMPT ARGS LAST ERROR".split(' ')));
        let failed = failed.to_string();
        let line: Vec<&str> = lines.next().unwrap().split_whitespace().collect();
        assert_eq!((&line[..2], &line[4..8]), (&[&*failed, "discarded"][..], &["default", "charge", "0", "1/1"][..]));
        assert_eq!(line[8..].join(" "), format!(r#"{{"card":"{SECRET}"}} the bank is closed"#));
        let listed = db.json(&["list", "--kind", "charge"]);
        assert_eq!((&listed[0]["args"]["card"], &listed[0]["last_error"]), (&json!(SECRET), &json!("the bank is closed")));
        let older = format!("there may be older jobs: --limit shows more, --before {later} is the next page\n");
        assert!(table.ends_with(&older), "{table}");
    }

    fn list_leaves_out_the_values_of_secret_arguments(db) {
        let db = db.migrated();
        db.enqueue(LogIn { user: "ada".to_owned(), password: SECRET.to_owned() });
        let table = db.run(&["list"]).succeeded().never_said(SECRET).stdout;
        assert!(table.contains(r#"{"password":"[redacted]","user":"ada"}"#), "{table}");
        let listed = db.run(&["list", "--json"]).succeeded().never_said(SECRET).json();
        assert_eq!(listed[0]["args"], json!({"user": "ada", "password": "[redacted]"}));
    }

    fn a_misspelt_kind_is_named_with_the_kind_that_is_meant(db) {
        let db = db.migrated();
        let meant = "this program has no job of kind `chrage`; did you mean `charge`?";
        for args in [
            &["list", "--kind", "chrage"][..],
            &["retry", "--kind", "chrage", "--yes"],
            &["kinds", "pause", "chrage"],
            &["kinds", "resume", "chrage"],
        ] {
            db.run(args).succeeded().complained(&[meant]);
        }
        db.run(&["list", "--kind", "charge"]).succeeded().never_said("warning");
        db.run(&["list", "--kind", "chrage", "--json"]).succeeded().never_said("warning");
    }

    fn a_filter_by_any_name_of_a_renamed_kind_finds_its_jobs(db) {
        let db = db.migrated();
        let prepared = |args: &[&str]| worker("renamed-worker").args(args).env("DATABASE_URL", &db.url).env("JOBS_ACTOR", "ada");
        let run = |args: &[&str]| prepared(args).run().succeeded();
        let old = db.enqueue(Greet { name: SECRET.to_owned() });
        let new = run(&["enqueue", "hail", r#"{"name": "ada"}"#, "--json"]).json()["id"].as_i64().unwrap();
        let other = db.enqueue(Wait { millis: 0 });
        assert_eq!(ids(&db.run(&["list", "--kind", "greet", "--json"]).succeeded()), [old], "this program knows no other name");
        let mut tails = ["greet", "hail"].map(|kind| prepared(&["tail", "--kind", kind]).start());
        tails.iter_mut().for_each(|tail| drop(tail.await_line("following")));
        for kind in ["greet", "hail"] {
            let text = format!("kind:{kind}");
            for filter in [["--kind", kind], ["--filter", &text]] {
                let with = |command: &[&str]| run(&[command, &filter].concat());
                assert_eq!(ids(&with(&["list", "--json"])), [new, old], "{filter:?}");
                assert_eq!(with(&["list", "--count"]).stdout, "2 jobs\n", "{filter:?}");
                assert_eq!(with(&["export"]).stdout.lines().count(), 2, "{filter:?}");
                assert_eq!(with(&["cancel", "--dry-run", "--json"]).json()["matched"]["jobs"], 2, "{filter:?}");
            }
        }
        // A name that is given twice is one.
        assert_eq!(ids(&run(&["list", "--kind", "greet,hail,wait", "--json"])), [other, new, old]);
        run(&["cancel", "--kind", "hail", "--yes"]);
        for tail in tails {
            for id in [old, new] {
                tail.await_output(&format!("{:9} {id} ", "cancelled"));
            }
        }
        let stored = db.json(&["operations"])[0]["filter"].to_string();
        assert!(stored.contains("kind:hail,greet"), "workers of any program can do it: {stored}");
        assert_eq!(db.json(&["show", &other.to_string()])["state"], "available");
    }

    fn failures_of_a_renamed_kind_are_found_by_any_of_its_names(db) {
        let db = db.migrated();
        let prepared = |args: &[&str]| worker("renamed-worker").args(args).env("DATABASE_URL", &db.url).env("JOBS_ACTOR", "ada");
        let json = |args: &[&str]| prepared(&[args, &["--json"]].concat()).run().succeeded().json();
        db.enqueue_many_with("greet", "mail", 1, "{}");
        db.enqueue_many_with("hail", "mail", 1, "{}");
        let mut renamed = prepared(&["--poll-interval", "50ms"]).start();
        until(|| match json(&["list", "--count", "--state", "retrying"])["jobs"].as_i64() {
            Some(2) => Ok(()),
            jobs => Err(format!("{jobs:?} jobs have failed")),
        });
        renamed.kill();
        for kind in ["greet", "hail"] {
            let groups = json(&["failures", "--kind", kind])["groups"].clone();
            let groups = groups.as_array().unwrap();
            assert_eq!(groups.iter().map(|group| group["kind"].as_str().unwrap()).collect::<BTreeSet<_>>(), ["greet", "hail"].into());
            for group in groups {
                let dry = json(&["failures", "retry", &group["fingerprint"].to_string(), "--kind", kind, "--dry-run"]);
                assert_eq!(dry["matched"]["jobs"], 1, "{group}");
            }
        }
        assert_eq!(json(&["failures", "--kind", "other"])["groups"], json!([]));
    }

    fn list_has_pages_and_every_condition(db) {
        let db = db.migrated();
        let [waiting, later, failed] = three_jobs(&db);
        let list = |args: &[&str]| ids(&db.run(&[&["list", "--json"], args].concat()).succeeded());
        let [w, l, f] = [waiting, later, failed].map(|id| id.to_string());
        assert_eq!(list(&["--limit", "1", "--before", &f]), [later]);
        assert_eq!(list(&["--before", &l]), [waiting]);
        assert_eq!(list(&["--before", &w]), [0i64; 0]);
        assert_eq!(list(&["--limit", "1", "--after", &w]), [later]);
        assert_eq!(list(&["--after", &w]), [failed, later]);
        assert_eq!(list(&["--after", &w, "--before", &f]), [later]);
        assert_eq!(db.run(&["list", "--before", &w]).succeeded().stdout, "no job matches\n");
        let newer = db.run(&["list", "--after", &w, "--limit", "1"]).succeeded().stdout;
        assert!(newer.ends_with(&format!("there may be newer jobs: --after {later} is the next page\n")), "{newer}");

        assert_eq!(list(&["--tag", "vip"]), [later]);
        assert_eq!(list(&["--priority", "-5"]), [later]);
        assert_eq!(list(&["--state", "scheduled,discarded"]), [failed, later]);
        assert_eq!(list(&["--error", "BANK is"]), [failed]);
        assert_eq!(list(&["--args", &format!("card={SECRET}")]), [failed]);
        assert_eq!(list(&["--run-at-after", "0s"]), [later]);
        assert_eq!(list(&["--finished-after", "1h"]), [failed]);
        assert_eq!((list(&["--enqueued-before", "1h"]), list(&["--enqueued-after", "1h"]).len()), (vec![], 3));
        let shown = db.json(&["show", &f]);
        assert_eq!(list(&["--fingerprint", &shown["errors"][0]["fingerprint"].to_string()]), [failed]);
        assert_eq!(list(&["--worker", shown["worker"].as_str().unwrap()]), [failed]);
        assert_eq!(list(&["--filter", "kind:greet priority:-5", "--queue", "mail"]), [later]);

        assert_eq!(db.json(&["list", "--count", "--kind", "greet"]), json!({"jobs": 2, "is_exact": true}));
        assert_eq!(db.run(&["list", "--count"]).succeeded().stdout, "3 jobs\n");
        assert_eq!(db.run(&["list", "--count", "--kind", "charge"]).succeeded().stdout, "1 job\n");
    }

    fn show_says_why_a_job_with_attempts_left_was_discarded(db) {
        let db = db.migrated();
        let [_, _, failed] = three_jobs(&db);
        let id = failed.to_string();
        let attempt = || db.run(&["show", &id]).succeeded().stdout.lines().find(|line| line.starts_with("attempt ")).unwrap().to_owned();
        assert_eq!(attempt(), "attempt      1 of 1");
        db.execute(&format!("update {} set max_attempts = 25 where id = {id}", db.waiting_table().replace("ready", "finished")));
        assert_eq!(attempt(), "attempt      1 of 25; there are no more, as its last error says");
        db.execute("update jobs.job_error set kind = 'undecodable'");
        let undecodable = format!("attempt      1 of 25; there are no more, because its arguments cannot be read: see `worker why {id}`");
        assert_eq!(attempt(), undecodable);
        let why = db.run(&["why", &id]).succeeded().stdout;
        assert!(why.contains(&format!("`worker retry {id}`; if the arguments are wrong")) && why.contains("`worker enqueue charge ARGS`"), "{why}");
    }

    fn show_tells_everything(db) {
        let db = db.migrated();
        let [_, later, failed] = three_jobs(&db);
        let shown = db.json(&["show", &failed.to_string()]);
        assert_eq!(shown["args"], json!({"card": SECRET}));
        assert_eq!(shown["attempt"], 1);
        assert_eq!(shown["errors"][0]["message"], "the bank is closed");
        assert_eq!(shown["errors"][0]["kind"], "error");

        let text = db.run(&["show", &failed.to_string()]).succeeded().stdout;
        for part in ["state        discarded", "attempt      1 of 1", SECRET, "attempt 1 failed at", "  the bank is closed"] {
            assert!(text.contains(part), "{part:?} is missing: {text}");
        }
        let text = db.run(&["show", &later.to_string()]).succeeded().stdout;
        assert!(text.contains("priority     -5") && text.contains("tags         vip"), "{text}");
        db.run(&["show", "999999"]).exited(1).complained(&["no job 999999"]);
    }

    fn show_has_the_output_and_a_wait_ends_in_another_process(db) {
        let db = db.migrated();
        let [none, small, large] = [0, 3, 300_000].map(|length| db.enqueue(Write { length }));
        let worker = db.start(&["--poll-interval", "50ms"]);
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let [none_ended, small_ended, large_ended] = runtime.block_on(async {
            let database = Database::open(&db.url, 0).await.unwrap();
            let wait = async |id| database.wait(JobId(id), LIMIT).await.unwrap();
            [wait(none).await, wait(small).await, wait(large).await]
        });
        let ends = [&none_ended, &small_ended, &large_ended];
        assert!(ends.iter().all(|end| (end.state, &end.error) == (JobState::Completed, &None)), "{ends:?}");
        assert!(none_ended.output.is_none());
        assert_eq!(small_ended.output.unwrap().read::<String>().unwrap().unwrap(), "xxx");
        let note = "the output takes 300002 bytes of JSON, at most 262144 are stored";
        assert_eq!(large_ended.output.unwrap().note(), Some(note));
        worker.signal("TERM");
        let run = worker.ended().succeeded();
        assert!(run.stderr.contains(note) || run.stdout.contains(note), "{run:#?}");

        let shown = |id: i64| (db.json(&["show", &id.to_string()]), db.run(&["show", &id.to_string()]).succeeded().stdout);
        let (json, text) = shown(none);
        assert!(json.get("output").is_none() && json.get("output_note").is_none() && !text.contains("output"), "{text}");
        let (json, text) = shown(small);
        assert!(json["output"] == "xxx" && text.contains("\noutput\n  \"xxx\"\n\nattempts\n"), "{text}");
        let (json, text) = shown(large);
        assert!(json["output_note"] == note && text.contains(&format!("\noutput\n  ({note})\n")), "{text}");
    }

    fn a_secret_argument_is_printed_nowhere(db) {
        let db = db.migrated();
        let id = db.enqueue(LogIn { user: "ada".to_owned(), password: SECRET.to_owned() });
        let worker = db.start(&["--queues", "default", "--poll-interval", "50ms"]);
        db.await_state(id, "discarded");
        worker.signal("TERM");
        let run = worker.ended().succeeded().never_said(SECRET);
        assert!(run.stderr.contains("ada is refused with") || run.stdout.contains("ada is refused with"), "{run:#?}");
        let shown = db.run(&["show", "--json", &id.to_string()]).succeeded().never_said(SECRET).json();
        assert_eq!(shown["args"], json!({"user": "ada", "password": "[redacted]"}));
        assert_eq!(shown["errors"][0]["message"], "ada is refused with \"[redacted]\"");
        let text = db.run(&["show", &id.to_string()]).succeeded().never_said(SECRET).stdout;
        assert!(text.contains("\"user\": \"ada\""), "{text}");
        // A filter would find it out value by value.
        for filter in [["--args", "password=x"], ["--filter", "kind:log_in args.password.0:x"], ["--args", "0=x"]] {
            let refused = db.run(&["list", filter[0], filter[1]]).exited(2);
            refused.complained(&["secret argument of the kind log_in"]);
        }
        assert_eq!(ids(&db.run(&["list", "--json", "--args", "user=ada"]).succeeded()), [id]);
    }

    fn retry_and_cancel_answer_for_each_job(db) {
        let db = db.migrated();
        let [waiting, later, failed] = three_jobs(&db).map(|id| id.to_string());
        let run = db.run(&["retry", &failed, "999999", &later]).exited(1);
        assert_eq!(
            run.stdout,
            format!("job {failed}: due now\njob 999999: there is no such job\njob {later}: due now\n")
        );
        assert_eq!(db.json(&["show", &failed])["state"], "available");

        assert_eq!(db.json(&["cancel", &failed]), json!([{"id": failed.parse::<i64>().unwrap(), "result": "done"}]));
        let again = db.run(&["cancel", "--json", &failed, &waiting]).exited(1).json();
        assert_eq!(again[0]["result"], "refused");
        assert_eq!(again[0]["state"], "cancelled");
        assert_eq!(again[1]["result"], "done");
        let refused = db.run(&["cancel", &failed]).exited(1).stdout;
        assert_eq!(refused, format!("job {failed} is cancelled: it has ended already, so there is nothing to cancel\n"));
    }

    fn stats_count_jobs_and_name_workers(db) {
        let db = db.migrated();
        assert_eq!(db.run(&["stats"]).succeeded().stdout, "no jobs\n\nno workers\n");
        three_jobs(&db);
        let busy = db.enqueue(Wait { millis: HOUR });
        let mut worker = db.start(&["--queues", "default=3"]);
        db.await_state(busy, "running");

        let stats = db.json(&["stats"]);
        let kind = |name: &str| stats["kinds"].as_array().unwrap().iter().find(|k| k["kind"] == name).unwrap().clone();
        assert_eq!((&kind("greet")["available"], &kind("greet")["scheduled"]), (&json!(1), &json!(1)));
        assert_eq!((&kind("charge")["discarded"], &kind("wait")["running"]), (&json!(1), &json!(1)));
        assert!(kind("greet")["oldest_wait_seconds"].as_f64().unwrap() > 0.0);
        assert_eq!(stats["workers"][0]["queues"], json!(["default"]));
        assert_eq!(stats["workers"][0]["alive"], true);

        let text = db.run(&["stats"]).succeeded().stdout;
        assert!(text.starts_with("QUEUE") && text.contains("WORKER") && text.contains("alive"), "{text}");
        worker.kill();
    }

    fn a_reader_that_stops_early_is_no_error(db) {
        let db = db.migrated();
        db.enqueue(Greet { name: "x".to_owned() });
        let run = db.run_into_closed_pipe(&["list"]);
        assert_eq!((run.code, run.stderr.lines().count()), (0, 1), "{run:#?}");
        assert!(run.stderr.starts_with("using "), "{run:#?}");
    }
}

#[test]
fn a_list_fits_a_narrow_terminal() {
    let db = Db::sqlite().migrated();
    let long = "仕入先のカタログを取り込む行列 of the supplier";
    db.enqueue(Greet { name: "x".repeat(100) }.queue(long));
    db.enqueue(Greet { name: "x".to_owned() }.queue(long));
    let terminal = Terminal::open(70, 24);
    let program = env!("CARGO_BIN_EXE_fixture-worker");
    terminal
        .keys(&[&format!("export DATABASE_URL='{}'; clear; {program} list 2> /dev/null; echo en''d", db.url), "Enter"]);
    let screen = terminal.await_text("end");
    let lines: Vec<&str> = screen.lines().take_while(|line| *line != "end").collect();
    assert_eq!(lines.len(), 3, "a row is one line: {screen}");
    assert!(lines[0].starts_with("ID  STATE") && !lines[0].contains("PRIORITY"), "{screen}");
    assert!(lines[1].contains("仕入先のカタログを..") && lines[1].contains("greet"), "{screen}");
    let piped = db.run(&["list"]).succeeded().stdout;
    assert!(piped.contains(long) && piped.contains("PRIORITY") && piped.contains(&"x".repeat(30)), "{piped}");
}
