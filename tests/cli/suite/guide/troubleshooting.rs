//! The guide's page on troubleshooting: a job of a paused queue, behind other jobs.

use super::shell::Shell;
use crate::page::Page;
use crate::support::Db;

#[test]
fn the_page_on_troubleshooting_shows_real_outputs() {
    let db = Db::postgres().migrated();
    let pause = ["queues", "pause", "mail", "--actor", "ana", "--reason", "the bank is closed"];
    db.run(&pause).succeeded();
    // Of these jobs, 6 are older than job 7, and 406 have a higher priority.
    db.enqueue_many_with("charge", "mail", 7, r#"{"card": "4000"}"#);
    db.enqueue_many_with("charge", "mail", 406, r#"{"card": "4000"}"#);
    db.execute("update jobs.ready set priority = 5 where id > 7");
    let mut worker = db.start(&["--queues", "mail=4"]);
    worker.await_line("worker started");
    let shell = Shell::new(&db);
    Page::read("docs/guide/troubleshooting.md").compare(|command| shell.run(command));
    worker.kill();
}
