#[diesel_jobs::test]
fn no_parameter() {}

#[diesel_jobs::test]
fn not_mutable(conn: &SqliteConnection) {}

#[diesel_jobs::test]
fn by_value(conn: SqliteConnection) {}

#[diesel_jobs::test]
fn two(conn: &mut SqliteConnection, other: &mut SqliteConnection) {}

#[diesel_jobs::test]
fn generic<C>(conn: &mut C) {}

#[diesel_jobs::test]
#[test]
fn twice(conn: &mut SqliteConnection) {}

#[diesel_jobs::test]
struct NoFunction;

#[diesel_jobs::test(migration = "migrations")]
fn an_option_that_does_not_exist(conn: &mut SqliteConnection) {}

#[diesel_jobs::test(migrations = 7, setup = "users")]
fn options_of_other_types(conn: &mut SqliteConnection) {}

fn main() {}
