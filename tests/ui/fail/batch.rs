use diesel_jobs::handler::{BatchContext, BatchHandled, HandleBatchIn, HandleBlockingBatchIn};
use diesel_jobs::prelude::*;

#[derive(serde::Serialize, serde::Deserialize, Job)]
#[job(batch = 100)]
struct NoList;

#[derive(serde::Serialize, serde::Deserialize, Job)]
#[job(batch())]
struct NoMax;

#[derive(serde::Serialize, serde::Deserialize, Job)]
#[job(batch(max = 0))]
struct Zero;

#[derive(serde::Serialize, serde::Deserialize, Job)]
#[job(batch(max = "100"))]
struct Quoted;

#[derive(serde::Serialize, serde::Deserialize, Job)]
#[job(batch(size = 100))]
struct Unknown;

#[derive(serde::Serialize, serde::Deserialize, Job)]
#[job(batch(max = 1, max = 2))]
struct Twice;

#[derive(serde::Serialize, serde::Deserialize, Job)]
#[job(batch(max = 100, wait = "1m"))]
struct LongWait;

#[derive(serde::Serialize, serde::Deserialize, Job)]
#[job(batch(max = 100, wait = 50))]
struct WaitWithoutUnit;

#[derive(serde::Serialize, serde::Deserialize, Job)]
#[job(batch(max = 100, by(indx)))]
struct NoArgument {
    index: i64,
}

#[derive(serde::Serialize, serde::Deserialize, Job)]
#[job(batch(max = 100, by()))]
struct ByNothing;

#[derive(serde::Serialize, serde::Deserialize, Job)]
#[job(batch(max = 100), blocking = true)]
struct Blocking;

#[derive(serde::Serialize, serde::Deserialize, Job)]
#[job(batch(max = 100), connection = Pool)]
struct OtherConnection;

impl HandleBatchIn<Pool> for OtherConnection {
    async fn handle(_: Vec<Self>, _: &mut Pool, ctx: BatchContext) -> BatchHandled {
        ctx.complete_all()
    }
}

#[derive(serde::Serialize, serde::Deserialize, Job)]
#[job(batch(max = 100), connection = Pool, blocking = true)]
struct OtherBlockingConnection;

impl HandleBlockingBatchIn<Pool> for OtherBlockingConnection {
    fn handle(_: Vec<Self>, _: &mut Pool, ctx: BatchContext) -> BatchHandled {
        ctx.complete_all()
    }
}

struct Pool;

#[job(batch(max = 100))]
fn function() {}

#[derive(serde::Serialize, serde::Deserialize, Job)]
#[job(batch(max = 100))]
struct NoHandler;

fn main() {}
