use std::rc::Rc;

use diesel_jobs::job;

async fn elsewhere() {}

#[job(queue = "mail")]
async fn holds_a_counter(number: i64) {
    let counter = Rc::new(number);
    elsewhere().await;
    drop(counter);
}

fn main() {}
