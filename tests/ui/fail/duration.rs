use diesel_jobs::job;

#[job(timeout = 30)]
fn without_quotes() {}

#[job(timeout = "30")]
fn without_unit() {}

#[job(timeout = "30 s")]
fn with_a_gap() {}

#[job(timeout = "1.5h")]
fn with_a_fraction() {}

#[job(timeout = "2 weeks")]
fn with_another_unit() {}

#[job(timeout = "s")]
fn without_number() {}

#[job(timeout = "")]
fn empty() {}

#[job(timeout = "0s")]
fn nothing() {}

#[job(timeout = "99999999999999999999999d")]
fn for_ever() {}

fn main() {}
