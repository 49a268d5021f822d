use diesel_jobs::job;

#[job]
struct Mail {
    to: String,
}

#[job]
mod mails {}

trait Mails {
    #[job]
    fn send();
}

fn main() {
    let _ = Mail { to: "x".into() };
}
