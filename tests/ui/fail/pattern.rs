use diesel_jobs::{Job, job};

#[job]
fn pair((from, to): (i64, i64)) {
    let _ = (from, to);
}

#[job]
fn nameless(_: i64) {}

#[job]
fn by_ref(ref name: String) {
    let _ = name;
}

#[job]
fn bound(name @ _: String) {
    let _ = name;
}

fn main() {
    let _ = Pair::new((1, 2)).priority(1);
}
