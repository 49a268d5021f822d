use diesel::prelude::*;
use diesel_jobs::prelude::*;

diesel::table! {
    users { id -> BigInt, name -> Text, nick -> Nullable<Text>, }
}

diesel::table! {
    orders { id -> BigInt, }
}

#[job]
fn nudge(user_id: i64, template: String) {
    let _ = (user_id, template);
}

fn a_column_of_another_type(conn: &mut SqliteConnection) {
    let _ = users::table.enqueue_each(conn, Nudge::columns(users::name, "v2"));
}

fn a_nullable_column(conn: &mut SqliteConnection) {
    let _ = users::table.enqueue_each(conn, Nudge::columns(users::id, users::nick));
}

fn a_value_of_another_type(conn: &mut SqliteConnection) {
    let _ = users::table.enqueue_each(conn, Nudge::columns(users::id, 7));
}

fn a_column_of_another_table(conn: &mut SqliteConnection) {
    let _ = users::table.enqueue_each(conn, Nudge::columns(orders::id, "v2"));
}

fn main() {}
