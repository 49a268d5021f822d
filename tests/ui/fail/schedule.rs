use diesel_jobs::{State, job};

#[job(cron = "every night")]
fn words() {}

#[job(cron = "0 0 0 30 2 *")]
fn thirtieth_of_february() {}

#[job(cron = "0 0 25 * * *")]
fn hour_of_25() {}

#[job(cron = 5)]
fn number() {}

#[job(cron = "0 0 2 * * *", timezone = "Europe/Pariss")]
fn zone_near_miss() {}

#[job(cron = "0 0 2 * * *", timezone = "Nowhere")]
fn zone_unknown() {}

#[job(timezone = "Europe/Paris")]
fn zone_alone() {}

#[job(catch_up = "all")]
fn catch_up_alone() {}

#[job(cron = "0 0 2 * * *", catch_up = "some")]
fn catch_up_unknown() {}

#[job(cron = "0 0 2 * * *")]
fn with_an_argument(State(_clock): State<u8>, day: String) {
    let _ = day;
}

fn main() {}
