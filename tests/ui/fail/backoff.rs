use diesel_jobs::job;

#[job(backoff = "quadratic(2s)")]
fn another_form() {}

#[job(backoff = "exponential(2s)")]
fn one_time_missing() {}

#[job(backoff = "exponential(1h, 2s)")]
fn cap_below_base() {}

#[job(backoff = "exponential(0s, 2s)")]
fn doubling_nothing() {}

#[job(backoff = "fixed(5)")]
fn without_unit() {}

#[job(backoff = "fixed(5s, 2s)")]
fn second_time_without_name() {}

#[job(backoff = "fixed(5s, jitter = 0s)")]
fn no_jitter() {}

#[job(backoff = "5s")]
fn only_a_time() {}

#[job(backoff = 5)]
fn a_number() {}

fn main() {}
