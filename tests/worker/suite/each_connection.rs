//! Tests of transactional handlers that run both on the runtime and on threads.

/// Makes one `#[test]` per function and type of connection. A function takes the database, and the result of
/// `async_kind` or `blocking_kind` of its module.
macro_rules! on_each_connection {
    ($($claim:ident),+ $(,)?) => {
        mod on_async_pg_connection {
            $(#[test] fn $claim() {
                support::run(support::Db::postgres(), |db| super::$claim(db, super::async_kind()));
            })+
        }
        mod on_pg_connection {
            $(#[test] fn $claim() {
                support::run(support::Db::postgres(), |db| super::$claim(db, super::blocking_kind()));
            })+
        }
    };
}
