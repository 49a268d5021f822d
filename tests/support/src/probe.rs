//! Events that handlers send to a test, and a gate at which a test holds handlers. One end is a state of the worker,
//! the test has the other end.

use std::sync::Arc;

use diesel_jobs::{JobContext, JobId};
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, mpsc};

use crate::{LIMIT, within};

/// The handlers' end. A handler takes it as `State<Probe>`.
#[derive(Clone, Debug)]
pub struct Probe {
    events: mpsc::UnboundedSender<Event>,
    gate: Arc<Semaphore>,
}

/// An event that a handler sent.
#[derive(Clone, Debug)]
pub struct Event {
    /// The handler's job.
    pub job: JobId,
    /// The handler's attempt.
    pub attempt: u16,
    /// The text of the event.
    pub text: String,
}

/// The test's end.
#[derive(Debug)]
pub struct Events {
    events: mpsc::UnboundedReceiver<Event>,
    gate: Arc<Semaphore>,
}

impl Probe {
    /// Returns both ends. The gate is closed.
    pub fn new() -> (Self, Events) {
        let (sender, receiver) = mpsc::unbounded_channel();
        let gate = Arc::new(Semaphore::new(0));
        (Self { events: sender, gate: gate.clone() }, Events { events: receiver, gate })
    }

    /// Sends an event to the test.
    pub fn say(&self, ctx: &JobContext, text: impl Into<String>) {
        // This fails if the test has ended.
        let _ = self.events.send(Event { job: ctx.id(), attempt: ctx.attempt(), text: text.into() });
    }

    /// Waits until the test lets one handler through.
    pub async fn pass(&self) {
        if let Ok(permit) = self.gate.acquire().await {
            permit.forget();
        }
    }

    /// Does the same as [`pass`](Self::pass) on a thread that may block.
    pub fn pass_blocking(&self) {
        Handle::current().block_on(self.pass());
    }
}

impl Events {
    /// Waits for the next event.
    pub async fn next(&mut self) -> Event {
        within(LIMIT, "an event of a handler", self.events.recv()).await.expect("a handler still holds the sender")
    }

    /// Waits for the next event, which must have this text.
    pub async fn expect(&mut self, text: &str) -> Event {
        let event = self.next().await;
        assert_eq!(event.text, text, "{event:?}");
        event
    }

    /// Returns the events that were sent and not received yet.
    pub fn rest(&mut self) -> Vec<Event> {
        std::iter::from_fn(|| self.events.try_recv().ok()).collect()
    }

    /// Lets this number of handlers through.
    pub fn open(&self, handlers: usize) {
        self.gate.add_permits(handlers);
    }
}

impl Drop for Events {
    /// Opens the gate for all. After a failed test, the end of its runtime would otherwise wait for the handlers.
    fn drop(&mut self) {
        self.gate.close();
    }
}
