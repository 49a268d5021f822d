//! `load`: the rows of a handler that takes no connection. They are read in one transaction of the reader, so they wait
//! for no handler that writes.

use std::sync::Arc;

use diesel::Connection as _;
use diesel::result::Error as DieselError;
use diesel_jobs_core::storage::{Loaded, Loading};
use tokio::runtime::Handle;

use crate::error::storage_error;
use crate::sqlite::shared_connection::SharedConnection;

pub(super) async fn load(reader: &Arc<SharedConnection>, loading: Loading) -> Loaded {
    let Loading { body, abort, .. } = loading;
    let runtime = Handle::current();
    let loaded = reader.run(move |conn| {
        // The future is ready at once. A failed query is no error of the transaction: the connection stays open.
        let loaded = conn.transaction(|conn| Ok::<_, DieselError>(runtime.block_on(body(conn))));
        loaded.map_err(storage_error)
    });
    tokio::select! {
        biased;
        loaded = loaded => match loaded {
            Ok(Ok(handler)) => Loaded::Handler(handler),
            Ok(Err(handled)) => Loaded::Ended(handled),
            Err(problem) => Loaded::NotLoaded(problem),
        },
        // The thread ends its statement and gives the connection back.
        () = abort.cancelled() => Loaded::Aborted,
    }
}
