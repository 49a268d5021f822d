use diesel_jobs::{JobContext, State, job};

#[job]
fn to_a_string(name: &String) {
    let _ = name;
}

#[job]
fn to_a_number(number: &i64) {
    let _ = number;
}

#[job]
fn for_ever(name: &'static str) {
    let _ = name;
}

#[job]
fn inside(names: Vec<&str>) {
    let _ = names;
}

#[job]
fn inside_a_slice(names: &[&str]) {
    let _ = names;
}

#[job]
fn elided(name: std::borrow::Cow<'_, str>) {
    let _ = name;
}

#[job]
fn by_state(state: &State<String>) {
    let _ = state;
}

#[job]
fn context(ctx: &mut JobContext) {
    let _ = ctx;
}

#[job]
fn mutable_text(name: &mut str) {
    let _ = name;
}

#[job]
fn mutable_slice(names: &mut [String]) {
    let _ = names;
}

fn main() {}
