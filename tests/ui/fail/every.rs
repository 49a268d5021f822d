use diesel_jobs::prelude::*;

#[job(every = "90")]
fn no_unit() {}

#[job(every = "0s")]
fn zero() {}

#[job(every = "-5m")]
fn negative() {}

#[job(every = "500ms")]
fn too_short() {}

#[job(every = "400d")]
fn too_long() {}

#[job(every = 90)]
fn not_quoted() {}

#[job(every = "90m", cron = "@daily")]
fn two_schedules() {}

#[job(every = "90m", timezone = "Europe/Paris")]
fn in_a_zone() {}

#[job(cron = "@every 1h 30m")]
fn as_cron() {}

#[job(cron = "@hourly 30")]
fn more_than_a_word() {}

#[job(every = "@hourly")]
fn as_every() {}

#[job(every = "90m")]
fn with_an_argument(user_id: i64) {
    let _ = user_id;
}

#[job(every = "90m", version = 2, upgrade = [])]
fn with_a_version() {}

fn main() {}
