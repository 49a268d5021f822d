//! `migrate roles`: the printed roles are sufficient for an application and a worker that may do no more than they
//! need.

use fixture_app::Greet;

use crate::support::{Db, Findings, worker};

#[test]
fn the_printed_roles_enqueue_and_work() {
    let db = Db::postgres();
    // Hardened databases have such defaults.
    for kind in ["execute on functions", "usage on types"] {
        db.execute(&format!("alter default privileges revoke {kind} from public"));
    }
    let db = db.migrated();
    let name = db.url.rsplit('/').next().unwrap().split('?').next().unwrap();
    let (enqueuer, runner) = (format!("{name}_enqueuer"), format!("{name}_worker"));
    // The replacement does what an administrator does with `sed`.
    let printed = db.run(&["migrate", "roles"]).succeeded().stdout;
    db.execute(&printed.replace("jobs_enqueuer", &enqueuer).replace("jobs_worker", &runner));
    db.execute(&format!("alter role {enqueuer} login; alter role {runner} login"));

    let as_role = |role: &str, args: &[&str]| worker("fixture-worker").args(args).env("DATABASE_URL", db.url_as(role));
    let id = db.enqueue_as(&enqueuer, Greet { name: "ada".repeat(2000) });
    as_role(&enqueuer, &["run"]).run().exited(1).complained(&["permission denied", "migrate roles"]);
    assert_eq!(Findings::of(&as_role(&runner, &["doctor", "--json"]).run()).checks(), ["warning:no_worker"]);
    let mut process = as_role(&runner, &[]).start();
    db.await_state(id, "completed");
    process.await_line("worker started");
    process.signal("TERM");
    let said = process.ended().succeeded().never_said("permission denied").stderr;
    as_role(&runner, &["show", &id.to_string()]).run().succeeded();
    as_role(&runner, &["migrate", "down", "--delete-jobs"]).run().exited(1).complained(&["must be owner"]);

    db.execute(&cluster::drop_roles(&[&enqueuer, &runner]));
    assert!(said.contains("worker stopped"), "{said}");
}
