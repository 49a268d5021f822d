//! Faults for background jobs, and an oracle that says what they broke.
//!
//! - [`cluster`]: a PostgreSQL of the suite's own, to be crashed, paused and started again;
//! - [`disk`]: a small disk, to be filled;
//! - [`pooler`]: PgBouncer in transaction mode before a server, and what sessions leave behind in it;
//! - [`process`]: real worker processes, to be killed, stopped and asked to end;
//! - [`proxy`]: a proxy before the server that loses exactly the reply it is told to lose;
//! - [`workload`]: jobs of every temper from a seed, their handlers, and the application that enqueues them;
//! - [`history`]: what happened, as those say who were there;
//! - [`checker`]: from a history to what must not be in it.
//!
//! `cargo xtask torture` runs the tests that are made of these; other tests may be made of them too.

pub mod checker;
pub mod cluster;
pub mod disk;
pub mod history;
pub mod pooler;
pub mod process;
pub mod proxy;
pub mod workload;
