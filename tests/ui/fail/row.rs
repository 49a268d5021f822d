use diesel_jobs::prelude::*;

struct User;
struct Connection;

#[job]
fn without_connection(_user: Ref<User>) {}

#[job]
fn misspelt(#[arg(gone = "drop")] _user: Ref<User>, _conn: &mut Connection) {}

#[job]
fn bare(#[arg(gone)] _user: Ref<User>, _conn: &mut Connection) {}

#[job]
fn needs_option(#[arg(gone = "none")] _user: Ref<User>, _conn: &mut Connection) {}

#[job]
fn has_option(#[arg(gone = "retry")] _user: Option<Ref<User>>, _conn: &mut Connection) {}

#[job]
fn no_row(#[arg(lock)] _user_id: i64, _conn: &mut Connection) {}

#[job]
fn borrowed(_user: &Ref<User>, _conn: &mut Connection) {}

#[derive(serde::Serialize, serde::Deserialize, Job)]
struct Derived {
    #[arg(lock)]
    user: i64,
}

fn main() {}
