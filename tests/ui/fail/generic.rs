use diesel_jobs::{Job, job};

#[job]
fn over_a_type<T>(value: T) {
    let _ = value;
}

#[job]
fn over_a_lifetime<'a>(name: &'a str) {
    let _ = name;
}

#[job]
fn over_a_number<const N: usize>() {}

#[job]
fn with_a_clause()
where
    String: Clone,
{
}

fn main() {
    let _ = OverAType::new(3).priority(1);
}
