use diesel_jobs::job;

#[job]
fn sometimes(always: i64, #[cfg_attr(all(), allow(unused))] sometimes: i64) {
    let _ = always;
}

fn main() {}
