use diesel_jobs::job;

const QUEUE: &str = "mail";

#[job(queue = 3)]
fn queue_number() {}

#[job(queue = QUEUE)]
fn queue_path() {}

#[job(queue = "")]
fn queue_empty() {}

#[job(kind = "no\0nul")]
fn kind_with_nul() {}

#[job(kind = "an endless name an endless name an endless name an endless name an endless name an endless name an endless name an endless name an endless name an endless name an endless name an endless name an endless name ")]
fn kind_too_long() {}

#[job(name = "not a name")]
fn name_of_words() {}

#[job(name = "struct")]
fn name_is_a_keyword() {}

#[job(priority = "high")]
fn priority_text() {}

#[job(priority = 40000)]
fn priority_too_high() {}

#[job(priority = -40000)]
fn priority_too_low() {}

#[job(max_attempts = 0)]
fn max_attempts_none() {}

#[job(max_attempts = 32768)]
fn max_attempts_too_many() {}

#[job(max_attempts = -1)]
fn max_attempts_negative() {}

#[job(retain = "sometimes")]
fn retain_word() {}

#[job(retain = "0s")]
fn retain_nothing() {}

#[job(retain = true)]
fn retain_flag() {}

#[job(expires = "0s")]
fn expires_at_once() {}

#[job(expires = 10)]
fn expires_number() {}

#[job(expires = "10 years")]
fn expires_years() {}

#[job(concurrency(limit = 5, on_full = "x"))]
fn on_full_word() {}

#[job(rate(limit = 5, per = "1m", on_full = "cancel_oldest"))]
fn on_full_of_a_rate() {}

#[job(concurrency("a", limit = 5, on_full = "discard"), concurrency("b", limit = 9))]
fn on_full_of_several() {}

fn main() {}
