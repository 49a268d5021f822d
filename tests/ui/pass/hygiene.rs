//! Names around a job that the macro's output must not meet.
#![deny(warnings, missing_docs)]
#![forbid(unsafe_code)]
#![allow(non_camel_case_types, dead_code, clippy::too_many_arguments)]

use diesel_jobs::{JobContext, job};

struct Box;
struct Result;
struct Option;
struct String;
struct Vec;
#[derive(serde::Serialize, serde::Deserialize, Clone)]
struct Ok;
mod core {}
mod std {}
mod serde_core {}

/// Types with the names of generics and locals.
#[derive(serde::Serialize, serde::Deserialize)]
struct D;
#[derive(serde::Serialize, serde::Deserialize)]
struct Fields;

#[job]
async fn ctx(job: i64, ctx: i64, connection: D, fields: Fields, map: i64, key: i64, values: &[i64], name: &str) {
    let _ = (job, ctx, connection, fields, map, key, values, name);
}

#[job]
fn job_(serializer: i64, deserializer: i64, f: Ok) {
    let _ = (serializer, deserializer, f);
}

#[job]
fn decode(ctx: &JobContext, extract: i64) {
    let _ = (ctx, extract);
}

fn main() {
    let _ = Ctx::new(1, 2, D, Fields, 3, 4, [5].to_vec(), "name");
    let _ = Job { serializer: 1, deserializer: 2, f: Ok };
    let _ = Decode { extract: 1 };
}
