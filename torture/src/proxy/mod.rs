//! A proxy before PostgreSQL. It follows the protocol far enough to drop exactly the reply that a test selects.
//!
//! ```text
//! client ── units ──▶ lost? held? hole? delay? ──▶ server
//! client ◀── lost? mute? hole? delay? ◀── replies, each with its statement ── server
//! ```
//!
//! Tests set the faults while it runs, and it counts them. It refuses encryption, because it could not read encrypted
//! messages.

mod faults;
mod frames;
mod script;
mod session;

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

use anyhow::Result;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

pub use faults::{Direction, Held, Losses, Reworded, Weather};
use faults::{Faults, Way};

/// A running proxy. When it is dropped, it ends with all its connections.
#[derive(Debug)]
pub struct Proxy {
    port: u16,
    upstream: Arc<AtomicU16>,
    faults: Arc<Faults>,
    listener: JoinHandle<()>,
}

impl Proxy {
    /// Starts a proxy before the server at this port of this machine.
    pub async fn start(upstream: u16) -> Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let port = listener.local_addr()?.port();
        let faults = Arc::<Faults>::default();
        let upstream = Arc::new(AtomicU16::new(upstream));
        let (shared, target) = (faults.clone(), upstream.clone());
        let listener = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(session::serve(client, target.load(Ordering::Acquire), shared.clone()));
            }
        });
        Ok(Self { port, upstream, faults, listener })
    }

    /// The port on which it listens.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Connects new clients to another server of this machine.
    pub fn lead_to(&self, upstream: u16) {
        self.upstream.store(upstream, Ordering::Release);
    }

    /// How often the server answered with an error or accepted no connection so far.
    pub fn contention(&self) -> usize {
        self.faults.times_in_vain()
    }

    /// Drops the reply to every `every`th commit, `times` times, and closes the connection. A commit is a statement
    /// outside of a transaction whose SQL contains `sql` and which changed a row, or, for `COMMIT`, the end of a
    /// transaction.
    pub fn lose_replies(&self, sql: &str, every: usize, times: usize) -> Arc<Losses> {
        self.faults.lose(Way::Back, sql, every, times)
    }

    /// The same, but the rows arrive: only the message that confirms the commit is dropped. A server that stops during
    /// a commit may send the rows, too, and not commit.
    pub fn lose_last_words(&self, sql: &str, every: usize, times: usize) -> Arc<Losses> {
        self.faults.lose(Way::LastWord, sql, every, times)
    }

    /// Drops every `every`th statement whose SQL contains `sql`, `times` times, and closes the connection.
    pub fn lose_requests(&self, sql: &str, every: usize, times: usize) -> Arc<Losses> {
        self.faults.lose(Way::There, sql, every, times)
    }

    /// Holds back statements whose SQL contains `sql`, until they are released.
    pub fn hold(&self, sql: &str) -> Arc<Held> {
        self.faults.hold(sql)
    }

    /// Replaces `from` by `to` in every statement that contains it.
    pub fn reword(&self, from: &str, to: &str) -> Arc<Reworded> {
        self.faults.reword(from, to)
    }

    /// Closes every connection.
    pub fn cut(&self) {
        self.faults.cuts().send_modify(|cuts| *cuts += 1);
    }

    /// Changes the faults that apply to all current and future connections.
    pub fn weather(&self, change: impl FnOnce(&mut Weather)) {
        self.faults.weather().send_modify(change);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.listener.abort();
        self.cut();
    }
}
