use diesel_jobs::prelude::*;

#[job(version = 2)]
fn nothing_upgrades(order_id: i64) {}

#[job(upgrade = from_v1)]
fn first(order_id: i64) {}

#[job(version = 2, upgrade = [from_v1, from_v1])]
fn too_many(order_id: i64) {}

#[job(version = 0)]
fn zeroth(order_id: i64) {}

#[job(version = 2, upgrade = "from_v1")]
fn quoted(order_id: i64) {}

#[job(version = 2, upgrade = [], cron = "@daily")]
fn nightly() {}

fn main() {}
