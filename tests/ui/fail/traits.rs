use diesel_jobs::prelude::*;

#[derive(serde::Serialize, serde::Deserialize)]
struct Token(String);

#[job]
fn charge(token: Token) {}

fn main() {
    let job = Charge::new(Token(String::new()));
    println!("{job:?}");
    let _ = Clone::clone(&job);
    assert!(job == job);
}
