use diesel_jobs::prelude::*;

#[derive(serde::Deserialize)]
struct First {
    order: i64,
}

fn from_v1(first: First) -> Charge {
    Charge { order_id: first.order }
}

#[job(version = 2, upgrade = from_v1)]
fn charge(order_id: i64) {}

#[job(version = 2, upgrade = from_v1)]
fn another(order_id: i64) {}

struct NotStored;

fn from_nothing(_: NotStored) -> Third {
    Third { order_id: 1 }
}

#[job(version = 2, upgrade = from_nothing)]
fn third(order_id: i64) {}

fn main() {}
