use diesel_jobs::prelude::*;
use diesel_jobs::rows::Ref;

struct NoRow;

#[job]
async fn of_an_async_job(no_row: Ref<NoRow>) {
    let _ = no_row;
}

#[job]
fn of_a_plain_job(Ref(no_row): Ref<NoRow>, number: i64) {
    let _ = (no_row, number);
}

#[job]
fn optional(#[arg(gone = "none")] no_row: Option<Ref<NoRow>>) {
    let _ = no_row;
}

fn main() {}
