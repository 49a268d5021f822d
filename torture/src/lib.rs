//! Faults for background jobs, and a checker that reports which guarantees they broke.
//!
//! - [`cluster`]: a PostgreSQL server of the suite, which tests crash, pause and restart;
//! - [`disk`]: a small disk, which tests fill;
//! - [`pooler`]: PgBouncer in transaction mode before a server, and what clients leave behind in the server's sessions;
//! - [`process`]: real worker processes, which tests kill, suspend and ask to end;
//! - [`proxy`]: a proxy before the server that drops exactly the reply that a test selects;
//! - [`workload`]: many sorts of jobs, made from a seed, their handlers, and the application that enqueues them;
//! - [`history`]: what happened, as the participants recorded it;
//! - [`checker`]: the violations in a history.
//!
//! `cargo xtask torture` runs the tests that use these modules. Other tests may use them, too.

pub mod checker;
pub mod cluster;
pub mod disk;
pub mod history;
pub mod pooler;
pub mod process;
pub mod proxy;
pub mod workload;
