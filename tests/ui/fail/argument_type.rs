use diesel_jobs::{Job, job};

struct Plain;

#[job]
async fn takes_plain(number: i64, plain: Plain) {
    let _ = (number, plain);
}

#[job]
fn takes_many(plains: Vec<Plain>, slice: &[Plain]) {
    let _ = (plains, slice);
}

fn main() {
    let _ = TakesPlain::new(1, Plain).priority(1);
    let _ = TakesPlain { number: 1, plain: Plain }.priority(1);
}
