use diesel_jobs::handler::Discarded;
use diesel_jobs::prelude::*;

#[job]
fn alert(_discarded: Discarded) {}

#[job]
fn remind(_user_id: i64) {}

#[job(on_discarded = "alert")]
fn quoted() {}

#[job(on_discarded = Itself)]
fn itself(_discarded: Discarded) {}

#[job(on_discarded = Remind)]
fn other_argument() {}

struct NoJob;

impl NoJob {
    fn new(_: Discarded) -> Self {
        Self
    }
}

#[job(on_discarded = NoJob)]
fn enqueues_no_job() {}

#[job(on_discared = Alert)]
fn typo() {}

#[job(on_discarded = alert)]
fn function() {}

fn main() {}
