use diesel_jobs::prelude::*;
use diesel_jobs::rows::{Ref, Take};

struct User;
struct Connection;

#[job]
fn locked_without_connection(#[arg(lock)] _user: Ref<User>) {}

#[job]
async fn gone_without_connection(#[arg(gone = "none")] _user: Ref<User>) {}

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

#[job]
fn take_without_connection(_coupon: Take<User>) {}

#[job]
fn take_is_locked(#[arg(lock)] _coupon: Take<User>, _conn: &mut Connection) {}

#[job]
fn take_has_no_key(#[arg(gone = "retry")] _coupon: Take<User>, _conn: &mut Connection) {}

#[job]
fn quoted(#[arg(from = "free_coupons")] _coupon: Take<User>, _conn: &mut Connection) {}

#[job]
fn from_is_for_take(#[arg(from = free_coupons)] _user: Ref<User>, _conn: &mut Connection) {}

#[job]
fn ref_waits(#[arg(lock = "skip")] _user: Ref<User>, _conn: &mut Connection) {}

#[job]
fn secret_row(#[arg(secret)] _coupon: Take<User>, _conn: &mut Connection) {}

fn main() {}
