//! The README: a job fails, is discarded, is retried and completes.

use fixture_app::ImportFeed;

use super::shell::Shell;
use crate::page::Page;
use crate::support::Db;

#[test]
fn the_readme_shows_real_outputs() {
    let db = Db::sqlite().migrated();
    let id = db.enqueue(ImportFeed::new("feed.xml"));
    let shell = Shell::new(&db);
    let mut terminal_1 = None;
    Page::read("README.md").compare(|command| {
        if command.contains("# terminal 1") {
            return terminal_1.insert(shell.start(command)).await_line("was discarded");
        }
        if command == "worker list" {
            db.await_state(id, "completed");
        }
        shell.run(command)
    });
}
