//! Tools for testing your application (feature `testing`). They show which jobs a connection has enqueued, and run
//! these jobs on the same connection, inside the transaction of the test. You need neither a worker nor a second
//! connection.
//!
//! Tests can run in parallel on one database, because no test transaction is committed. On PostgreSQL, two of them that
//! enqueue a unique or debounced job with the same key wait for each other, as with any unique column. Give each test
//! values of its own, or a [`TestDatabase`].
//!
//! ```
//! use diesel::prelude::*;
//! use diesel_jobs::prelude::*;
//! use diesel_jobs::testing::{drain, enqueued, perform};
//! use diesel_jobs::{assert_enqueued, refute_enqueued};
//!
//! #[job]
//! fn charge(order_id: i64, conn: &mut SqliteConnection) -> QueryResult<()> {
//!     diesel::sql_query("select 1").execute(conn).map(drop)
//! }
//!
//! fn place_order(conn: &mut SqliteConnection, id: i64) -> Result<(), diesel::result::Error> {
//!     Charge { order_id: id }.enqueue(conn)?;
//!     Ok(())
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut conn = SqliteConnection::establish(":memory:")?;
//! diesel_jobs::migrate(&mut conn)?;
//! conn.begin_test_transaction()?; // `#[diesel_jobs::test]` does this for a test
//!
//! place_order(&mut conn, 7)?;
//! assert_enqueued!(conn, Charge { order_id: 7 }, queue = "default", count = 1);
//! refute_enqueued!(conn, Charge { order_id: 8 });
//! assert_eq!(enqueued::<Charge, _>(&mut conn)?[0].order_id, 7);
//!
//! let report = drain(&mut conn).run()?;
//! report.assert_completed::<Charge>(1);
//!
//! assert_eq!(perform(Charge { order_id: 7 }).attempt(3).on(&mut conn)?, Outcome::Complete);
//! # Ok(())
//! # }
//! ```

pub use diesel_jobs_storage::testing::{
    Among, AsTestConnection, Blocked, Contents, CrashConnection, CrashEverywhere, CrashPoint, CrashReport, Drain,
    DrainReport, Ended, Enqueued, Expectation, FieldDifference, Perform, RanJob, RunIn, StillWaiting, SyncTestSession,
    TestConnection, TestDatabase, TestDatabaseBuilder, TestSession, Waiting, crash_everywhere, drain, enqueued,
    perform, tick,
};

/// Asserts that a job is enqueued. The macro reads the waiting jobs that the connection sees, inside its transaction.
///
/// Write the job like a struct literal: `assert_enqueued!(conn, Charge { order_id: 7 })`. The value of a field may be
/// any expression, and is compared with `==`. `..` stands for all other fields, which are then not compared. The name
/// alone, as in `assert_enqueued!(conn, Charge)`, matches every job of this kind.
///
/// Options may follow the job: `queue = "mail"`, `priority = 5`, `max_attempts = 3`, `tags = ["vip"]`, `run_at = time`,
/// `run_in = 3500..3700` (a range of seconds or `Duration`s from now) and `count = 2` (exactly two jobs; without it, at
/// least one).
///
/// On an async connection the macro returns a future: `assert_enqueued!(conn, ..).await`. The type must have a handler
/// (`#[job]` or `#[derive(Job)]`). Stored jobs of earlier versions are upgraded before they are compared.
///
/// # Panics
///
/// Panics if the assertion fails. The message shows the waiting jobs of this kind and the fields in which they differ,
/// the closest matches first.
#[macro_export]
macro_rules! assert_enqueued {
    ($conn:expr, $($rest:tt)+) => {
        $crate::__expectation!($conn, [], $($rest)+)
    };
}

/// Asserts that no such job is enqueued. The syntax is that of [`assert_enqueued!`], without the option `count`.
#[macro_export]
macro_rules! refute_enqueued {
    ($conn:expr, $($rest:tt)+) => {
        $crate::__expectation!($conn, [.count(0)], $($rest)+)
    };
}

/// Asserts that stored jobs of this kind can still be decoded.
///
/// `assert_golden!(Charge::new(7, "EUR"))` compares the job with the file `jobs/golden/charge.v1.json` in the package
/// of the test. The first run writes this file; commit it. Later runs panic if the file no longer decodes, or if it
/// decodes to a different job. For each earlier version that the job upgrades from, the file of that version must also
/// exist and decode. If the environment variable `CI` is set, a missing file fails the test instead of being written.
#[macro_export]
macro_rules! assert_golden {
    ($job:expr $(,)?) => {
        if let ::core::result::Result::Err(problem) =
            $crate::__private::check_golden(::std::path::Path::new(::core::env!("CARGO_MANIFEST_DIR")), &$job)
        {
            ::core::panic!("{problem}");
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __expectation {
    ($conn:expr, [$($refute:tt)*], $job:path { $($fields:tt)* } $(, $option:ident = $value:expr)* $(,)?) => {{
        #[allow(unused_imports)]
        use $crate::testing::TestConnection as _;
        $conn.check(
            $crate::testing::Expectation::<$job>::new(
                ::core::stringify!($job { $($fields)* }),
                |job: &$job| {
                    $crate::__listed!($job, $($fields)*);
                    #[allow(unused_mut)]
                    let mut differences = ::std::vec::Vec::new();
                    $crate::__compare!(job, differences, $($fields)*);
                    differences
                },
            )
            $(.$option($value))* $($refute)*,
            |message| ::core::panic!("{message}"),
        )
    }};
    ($conn:expr, [$($refute:tt)*], $job:path $(, $option:ident = $value:expr)* $(,)?) => {{
        #[allow(unused_imports)]
        use $crate::testing::TestConnection as _;
        $conn.check(
            $crate::testing::Expectation::<$job>::new(
                ::core::stringify!($job),
                |_: &$job| ::std::vec::Vec::new(),
            )
            $(.$option($value))* $($refute)*,
            |message| ::core::panic!("{message}"),
        )
    }};
}

/// Fails to compile if a field does not exist, or if a field is missing and there is no `..`. Without `..`, it expands
/// to a struct literal, because the error for a literal names the missing fields.
#[doc(hidden)]
#[macro_export]
macro_rules! __listed {
    ($job:path, $($field:ident $(: $expected:expr)?),* $(,)?) => {
        // A literal cannot begin with `$job`.
        type Listed = $job;
        let _ = || Listed { $($field: $crate::__private::never()),* };
    };
    ($job:path, $($field:ident $(: $expected:expr)?,)* ..) => {
        let _ = |job: &$job| {
            let $job { $($field: _,)* .. } = job;
        };
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __compare {
    ($job:expr, $differences:ident, $field:ident: $expected:expr $(, $($rest:tt)*)?) => {
        #[allow(clippy::bool_comparison, clippy::float_cmp, clippy::cmp_owned, clippy::op_ref, clippy::bool_assert_comparison)]
        if !$crate::__private::equal!($job.$field, $expected) {
            $crate::__private::differs(&mut $differences, ::core::stringify!($field), &$expected);
        }
        $($crate::__compare!($job, $differences, $($rest)*);)?
    };
    ($job:expr, $differences:ident, $field:ident $(, $($rest:tt)*)?) => {
        $crate::__compare!($job, $differences, $field: $field $(, $($rest)*)?);
    };
    ($job:expr, $differences:ident, ..) => {};
    ($job:expr, $differences:ident,) => {};
}
