//! A proxy before PostgreSQL that follows the protocol far enough to lose exactly the reply it is told to lose.
//!
//! ```text
//! client ── units ──▶ lost? held? hole? delay? ──▶ server
//! client ◀── lost? mute? hole? delay? ◀── replies, each with its statement ── server
//! ```
//!
//! Faults are commanded while it runs, and counted. It refuses encryption: it could not read on.

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

/// A proxy at work. Gone, with its sessions, when it is dropped.
#[derive(Debug)]
pub struct Proxy {
    port: u16,
    upstream: Arc<AtomicU16>,
    faults: Arc<Faults>,
    listener: JoinHandle<()>,
}

impl Proxy {
    /// Starts one before the server on this port of this machine.
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

    /// Where it listens.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Has new connections lead to another server of this machine.
    pub fn lead_to(&self, upstream: u16) {
        self.upstream.store(upstream, Ordering::Release);
    }

    /// How often the server was asked in vain so far: it answered with an error, or took no connection.
    pub fn contention(&self) -> usize {
        self.faults.times_in_vain()
    }

    /// Loses the reply to every so-manieth commit: of a statement outside of a transaction whose SQL has this in it and
    /// which moved a row, or, for `COMMIT`, of a transaction. So many times; the connection is cut with the reply.
    pub fn lose_replies(&self, sql: &str, every: usize, times: usize) -> Arc<Losses> {
        self.faults.lose(Way::Back, sql, every, times)
    }

    /// The same, but the rows arrive: only the word that all is committed is lost. A server that goes down in the middle
    /// of a commit may say as much, and not commit.
    pub fn lose_last_words(&self, sql: &str, every: usize, times: usize) -> Arc<Losses> {
        self.faults.lose(Way::LastWord, sql, every, times)
    }

    /// Loses every so-manieth statement whose SQL has this in it, so many times; the connection is cut with it.
    pub fn lose_requests(&self, sql: &str, every: usize, times: usize) -> Arc<Losses> {
        self.faults.lose(Way::There, sql, every, times)
    }

    /// Keeps statements whose SQL has this in it from the server until they are released.
    pub fn hold(&self, sql: &str) -> Arc<Held> {
        self.faults.hold(sql)
    }

    /// Puts other words in the place of these, in every statement that has them.
    pub fn reword(&self, from: &str, to: &str) -> Arc<Reworded> {
        self.faults.reword(from, to)
    }

    /// Ends every connection.
    pub fn cut(&self) {
        self.faults.cuts().send_modify(|cuts| *cuts += 1);
    }

    /// Changes the weather, for all connections that are and will be.
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
