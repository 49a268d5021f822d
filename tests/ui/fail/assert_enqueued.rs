use diesel::SqliteConnection;
use diesel_jobs::prelude::*;
use diesel_jobs::{assert_enqueued, refute_enqueued};

#[job]
fn charge(order_id: i64, currency: String) {
    let _ = (order_id, currency);
}

struct Charged {
    order_id: i64,
}

fn a_field_that_does_not_exist(conn: &mut SqliteConnection) {
    assert_enqueued!(conn, Charge { order: 7, .. });
}

fn another_type(conn: &mut SqliteConnection) {
    assert_enqueued!(conn, Charge { order_id: "7", currency: "EUR" });
}

fn a_missing_field(conn: &mut SqliteConnection) {
    refute_enqueued!(conn, Charge { order_id: 7 });
}

fn an_option_that_does_not_exist(conn: &mut SqliteConnection) {
    assert_enqueued!(conn, Charge { order_id: 7, .. }, in_queue = "mail");
}

fn an_option_of_another_type(conn: &mut SqliteConnection) {
    assert_enqueued!(conn, Charge { order_id: 7, .. }, priority = "high");
}

fn no_job(conn: &mut SqliteConnection) {
    assert_enqueued!(conn, Charged { order_id: 7 });
}

fn no_connection(number: i64) {
    assert_enqueued!(number, Charge { order_id: 7, .. });
}

fn main() {}
