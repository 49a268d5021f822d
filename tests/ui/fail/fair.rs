use diesel_jobs::{Job, job};
use serde::{Deserialize, Serialize};

#[job(fair(by(tenant_id)))]
async fn without_a_limit(tenant_id: i64) {}

#[job(concurrency(limit = 10), fair(by(tenent_id)))]
async fn no_such_argument(tenant_id: i64) {}

#[job(concurrency(limit = 10), fair(tenant_id))]
async fn without_by(tenant_id: i64) {}

#[job(concurrency(limit = 10), fair(by(token)))]
async fn secret(#[arg(secret)] token: String) {}

#[job(rate(limit = 10, per = "1s"), fair(by(tenant_id)))]
async fn with_a_rate(tenant_id: i64) {}

#[job(sequence(by(tenant_id)), fair(by(tenant_id)))]
async fn with_a_sequence(tenant_id: i64) {}

#[job(concurrency("a", limit = 10), concurrency("b", limit = 10), fair(by(tenant_id)))]
async fn with_several_limits(tenant_id: i64) {}

#[job(unique(on_conflict = "run_again"), concurrency(limit = 10), fair(by(tenant_id)))]
async fn with_run_again(tenant_id: i64) {}

#[derive(Serialize, Deserialize, Job)]
#[job(fair(by(tenant_id)))]
struct Derived {
    tenant_id: i64,
}

fn main() {}
