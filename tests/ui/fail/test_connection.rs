// `#[diesel_jobs::test]` writes these calls. The compiler leaves its tests out of this program, because it is no test.

use diesel::SqliteConnection;
use diesel_async::sync_connection_wrapper::SyncConnectionWrapper;
use diesel_jobs::__private::{Prepared, TestSettings, run_test};

const SETTINGS: TestSettings = TestSettings { package: ".", migrations: None };

fn no_connection() {
    run_test::<String, _>(SETTINGS, |conn| conn.clear());
}

fn not_async() {
    run_test::<SyncConnectionWrapper<SqliteConnection>, _>(SETTINGS, |_| {});
}

fn a_number(_: &mut SqliteConnection) -> i32 {
    7
}

fn a_setup_that_returns_something_else() {
    run_test::<SqliteConnection, _>(SETTINGS, |conn| Prepared::done(a_number(conn)));
}

fn main() {}
