use diesel_jobs::Job;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize, Job)]
struct SendWelcome {
    to: String,
}

fn main() {
    let _ = SendWelcome { to: "x".into() };
}
