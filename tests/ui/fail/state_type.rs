use diesel_jobs::{State, job};

struct Mailer;

#[job]
async fn send(State(mailer): State<Mailer>, to: String) {
    let _ = (mailer, to);
}

fn main() {}
