use diesel_jobs::job;

#[job]
fn __() {}

#[job]
fn _2nd_mail() {}

#[job]
fn self_() {}

#[allow(non_snake_case)]
#[job]
fn Mail() {}

#[job(name = "send")]
fn send() {}

fn main() {}
