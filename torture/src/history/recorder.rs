//! The workers' part of the history: each event of a handler is in the database before the handler continues.
//!
//! Each process has one connection. One insert stores all events that were reported while the last insert ran. Events
//! that may not have arrived are sent again, under the same id, until the server is back.

use std::time::Duration;

use anyhow::{Result, anyhow};
use diesel_jobs::JobContext;
use tokio::runtime::{self, Handle};
use tokio::sync::{mpsc, oneshot};
use tokio_postgres::{Client, NoTls, Statement};
use uuid::Uuid;

/// The most events of one insert.
const BATCH: usize = 500;
/// The pause between attempts to reach the server.
const PAUSE: Duration = Duration::from_millis(20);

const INSERT: &str = "
    insert into torture.event (id, number, job, lease, attempt, worker, pid, what)
    select * from unnest($1::uuid[], $2::bigint[], $3::bigint[], $4::integer[], $5::smallint[], $6::uuid[], $7::integer[], $8::text[])
    on conflict do nothing";

/// An event that a handler reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// The handler begins.
    Start,
    /// It is about to return success.
    Ok,
    /// It is about to fail.
    Fail,
    /// It is about to snooze.
    Snooze,
    /// It is about to cancel itself.
    Cancel,
    /// It was asked to stop.
    Stopped,
}

impl What {
    /// The stored text.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Ok => "ok",
            Self::Fail => "fail",
            Self::Snooze => "snooze",
            Self::Cancel => "cancel",
            Self::Stopped => "stopped",
        }
    }
}

struct Said {
    id: Uuid,
    number: i64,
    ctx: JobContext,
    what: What,
    written: oneshot::Sender<()>,
}

/// Receives the events of handlers. It is cheap to clone, and is the state of a worker.
#[derive(Clone, Debug)]
pub struct Recorder(mpsc::Sender<Said>);

impl Recorder {
    /// Starts a recorder that writes to this server on its own thread, because handlers may block every thread of their
    /// runtime.
    pub fn start(url: String) -> std::io::Result<Self> {
        let (sender, said) = mpsc::channel(4 * BATCH);
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        std::thread::Builder::new().name("recorder".to_owned()).spawn(move || runtime.block_on(write(url, said)))?;
        Ok(Self(sender))
    }

    /// Records an event. Returns when it is stored.
    pub async fn say(&self, ctx: &JobContext, number: i64, what: What) -> Result<()> {
        let (written, heard) = oneshot::channel();
        let said = Said { id: Uuid::new_v4(), number, ctx: ctx.clone(), what, written };
        self.0.send(said).await.map_err(|_| anyhow!("the recorder has ended"))?;
        heard.await.map_err(|_| anyhow!("the recorder has ended"))
    }

    /// The same, for a thread that may block.
    pub fn say_blocking(&self, ctx: &JobContext, number: i64, what: What) -> Result<()> {
        Handle::current().block_on(self.say(ctx, number, what))
    }
}

async fn write(url: String, mut said: mpsc::Receiver<Said>) {
    let mut session = None;
    let mut batch = Vec::with_capacity(BATCH);
    while said.recv_many(&mut batch, BATCH).await > 0 {
        loop {
            let written = async {
                let (client, insert) = match session.take() {
                    Some(open) => open,
                    None => open(&url).await?,
                };
                insert_all(&client, &insert, &batch).await?;
                session = Some((client, insert));
                Ok::<_, tokio_postgres::Error>(())
            };
            match written.await {
                Ok(()) => break,
                Err(_) => tokio::time::sleep(PAUSE).await,
            }
        }
        for said in batch.drain(..) {
            // The handler may have been stopped meanwhile. Then this fails.
            let _ = said.written.send(());
        }
    }
}

async fn open(url: &str) -> Result<(Client, Statement), tokio_postgres::Error> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(connection);
    let insert = client.prepare(INSERT).await?;
    Ok((client, insert))
}

async fn insert_all(client: &Client, insert: &Statement, batch: &[Said]) -> Result<(), tokio_postgres::Error> {
    fn column<T>(batch: &[Said], value: impl Fn(&Said) -> T) -> Vec<T> {
        batch.iter().map(value).collect()
    }
    let ids = column(batch, |said| said.id);
    let numbers = column(batch, |said| said.number);
    let jobs = column(batch, |said| said.ctx.id().0);
    let leases = column(batch, |said| said.ctx.lease().number);
    let attempts = column(batch, |said| said.ctx.attempt().cast_signed());
    let workers = column(batch, |said| said.ctx.lease().worker.0);
    let pids = vec![std::process::id().cast_signed(); batch.len()];
    let whats = column(batch, |said| said.what.as_str());
    client.execute(insert, &[&ids, &numbers, &jobs, &leases, &attempts, &workers, &pids, &whats]).await?;
    Ok(())
}
