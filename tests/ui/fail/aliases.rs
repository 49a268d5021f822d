use diesel_jobs::prelude::*;

#[job(aliases("itself"))]
fn itself() {}

#[job(kind = "stored", aliases("before", "stored"))]
fn stored_elsewhere() {}

#[job(aliases())]
fn none() {}

#[job(aliases = "before")]
fn not_a_list() {}

#[job(aliases)]
fn not_complete() {}

#[job(aliases("before", ""))]
fn empty() {}

#[job(aliases("before", before))]
fn not_quoted() {}

#[job(aliases("a\0b"))]
fn nul() {}

#[job(aliases("before", "other", "before"))]
fn twice() {}

#[job(aliases("before"), aliases("other"))]
fn two_lists() {}

#[job(version = 2, upgrade = [], aliases("before.v2"))]
fn with_a_version() {}

#[derive(serde::Serialize, serde::Deserialize, Job)]
#[job(aliases("derived"))]
struct Derived;

impl diesel_jobs::handler::Handle for Derived {
    async fn handle(self, _: JobContext) -> Result<Outcome, JobError> {
        Ok(Outcome::Complete)
    }
}

#[job(alias("before"))]
fn singular() {}

fn main() {}
