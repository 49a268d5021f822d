//! Claims about transactional handlers, which hold for those on the runtime and for those on threads.

/// One `#[test]` per claim and kind of connection. A claim takes the database and what `async_kind` or `blocking_kind` of its
/// module answers.
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
