//! The results, printed and checked.

use std::io::Write as _;
use std::time::Duration;

use super::claims;
use super::clients::{Answers, CLIENTS, ORDERS, REFUSED_EVERY};
use crate::database::Db;

/// The results.
pub(super) struct Figures {
    pub(super) answers: Answers,
    pub(super) held: i64,
    pub(super) requests_took: Duration,
    pub(super) all_took: Duration,
    /// How often the watcher found what must never occur.
    pub(super) exceptions: usize,
}

impl Figures {
    pub(super) async fn print(&self, db: &Db) {
        let Answers { placed, refused, read } = self.answers;
        let (requests, all) = (self.requests_took.as_secs_f64(), self.all_took.as_secs_f64());
        let jobs = db.number("select count(*) from jobs.job").await;
        let rescued = db.number("select count(*) from jobs.job where crashes > 0").await;
        let repeated = db.number("select coalesce(sum(submissions - 1), 0) from mails").await;
        let text = format!(
            "\nend to end: {} requests by {CLIENTS} clients in {requests:.1} s\n  \
             orders placed {placed}, refused and rolled back {refused}, read {read}\n  \
             {jobs} jobs, the last one ended after {all:.1} s\n  \
             {} jobs held by the killed worker, {rescued} rescued\n  \
             mails handed in twice (and sent once): {repeated}\n",
            placed + refused + read,
            self.held,
        );
        // Written at once, and not by `eprintln!`, which the test harness captures.
        let _ = std::io::stderr().write_all(text.as_bytes());
    }

    /// Checks everything before it panics, so that one exception does not hide the others.
    pub(super) async fn check(&self, db: &Db) {
        let mut wrong = Vec::new();
        for (claim, exceptions) in claims::AT_THE_END {
            let exceptions = db.number(exceptions).await;
            if exceptions != 0 {
                wrong.push(format!("{claim}: {exceptions} exceptions"));
            }
        }
        let Self { answers, held, exceptions, .. } = self;
        let rescued = db.number("select count(*) from jobs.job where crashes > 0").await;
        let orders = db.number("select count(*) from orders").await;
        let mut holds = |claim: &str, is: bool| {
            if !is {
                wrong.push(claim.to_owned());
            }
        };
        holds("every fifth order was refused", answers.refused == ORDERS / REFUSED_EVERY);
        holds("each request was answered", answers.placed + answers.refused == ORDERS);
        holds("there are the orders that clients know of, and no others", orders == answers.placed as i64);
        holds("what the killed worker held was rescued", rescued >= *held);
        holds("a charge and its job's completion are seen together or not at all", *exceptions == 0);
        assert!(wrong.is_empty(), "not true at the end:\n  {}", wrong.join("\n  "));
    }
}
