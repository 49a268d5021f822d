use diesel_jobs::handler::Handle;
use diesel_jobs::{Job, JobContext, JobError, Outcome};
use serde::{Deserialize, Serialize};

macro_rules! handle {
    ($($job:ident)*) => {$(
        impl Handle for $job {
            async fn handle(self, _: JobContext) -> Result<Outcome, JobError> {
                Ok(Outcome::Complete)
            }
        }
    )*};
}

handle!(Named Unknown Nightly Choice Bare);

#[derive(Serialize, Deserialize, Job)]
#[job(name = "Other")]
struct Named;

#[derive(Serialize, Deserialize, Job)]
#[job(quue = "mail")]
struct Unknown;

#[derive(Serialize, Deserialize, Job)]
#[job(cron = "0 0 2 * * *")]
struct Nightly {
    day: String,
}

#[derive(Serialize, Deserialize, Job)]
#[job(cron = "0 0 2 * * *")]
enum Choice {
    One,
}

#[derive(Serialize, Deserialize, Job)]
#[job = "mail"]
struct Bare;

fn main() {}
