//! Handlers that use the database through a connection of the worker.

use std::any::TypeId;

use async_trait::async_trait;

use super::{Loaded, Loading, Transacted, Transaction};

/// What a database does for handlers that take a connection, or rows.
#[async_trait]
pub trait Connections: Send + Sync {
    /// Whether transactional handlers may take this connection type, and rows may be loaded through it.
    fn provides(&self, connection: TypeId) -> bool;

    /// How many connections are open, if the database is reached through connections.
    fn connections(&self) -> Option<usize> {
        None
    }

    /// Runs a handler inside the transaction that finishes its job, or all jobs of its batch. If one of the leases is
    /// lost, nothing is committed.
    async fn transact(&self, transaction: Transaction) -> Transacted;

    /// Loads the rows of a handler that takes no connection, and gives the connection back. It writes nothing.
    async fn load(&self, loading: Loading) -> Loaded;
}
