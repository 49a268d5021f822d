//! The long form, with the attribute macro of the same name in scope.
#![deny(warnings)]
#![allow(missing_docs)]

use diesel_jobs::handler::Handle;
use diesel_jobs::{Job, JobContext, JobError, Outcome, job};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize, Job)]
#[job(queue = "mail", max_attempts = 3)]
#[job(timeout = "5s")]
pub struct SendWelcome {
    #[serde(alias = "id")]
    user_id: i64,
}

impl Handle for SendWelcome {
    async fn handle(self, ctx: JobContext) -> Result<Outcome, JobError> {
        let _ = (self.user_id, ctx.attempt());
        Ok(Outcome::Complete)
    }
}

#[job]
fn other() {}

fn main() {
    assert_eq!(SendWelcome::KIND, "send_welcome");
    assert_eq!(SendWelcome::OPTIONS.max_attempts, 3);
    other();
    let _ = Other;
}
