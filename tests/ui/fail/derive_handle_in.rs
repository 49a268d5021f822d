use diesel_jobs::prelude::*;
use diesel_jobs::handler::{Handle, HandleIn, Handled};
use serde::{Deserialize, Serialize};

struct Wallet;

// The connection is in the options, and the handler does not take it.
#[derive(Serialize, Deserialize, diesel_jobs::Job)]
#[job(blocking = true, connection = Wallet)]
struct Charge;

impl Handle for Charge {
    async fn handle(self, _: JobContext) -> Handled {
        Ok(Outcome::Complete)
    }
}

// The same with a handler that blocks.
#[derive(Serialize, Deserialize, diesel_jobs::Job)]
#[job(blocking = true)]
struct Render;

impl Handle for Render {
    async fn handle(self, _: JobContext) -> Handled {
        Ok(Outcome::Complete)
    }
}

// No connection that an async handler can take.
#[derive(Serialize, Deserialize, diesel_jobs::Job)]
#[job(connection = String)]
struct Odd;

impl HandleIn<String> for Odd {
    async fn handle(self, _: &mut String, _: JobContext) -> Handled {
        Ok(Outcome::Complete)
    }
}

// Functions say both by their signatures.
#[job(blocking = true)]
async fn by_signature() {}

#[job(connection = Wallet)]
async fn by_parameter() {}

// Values of other forms.
#[derive(Serialize, Deserialize, diesel_jobs::Job)]
#[job(blocking = "yes", connection = "Wallet")]
struct Quoted;

fn main() {}
