//! What handlers tell a test, and how a test holds them: a state to give to the worker, and the test's end of it.

use std::sync::Arc;

use diesel_jobs::{JobContext, JobId};
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, mpsc};

use crate::{LIMIT, within};

/// The handlers' end: take it as `State<Probe>`.
#[derive(Clone, Debug)]
pub struct Probe {
    events: mpsc::UnboundedSender<Event>,
    gate: Arc<Semaphore>,
}

/// Something a handler said.
#[derive(Clone, Debug)]
pub struct Event {
    /// Its job.
    pub job: JobId,
    /// Its attempt.
    pub attempt: u16,
    /// What it said.
    pub text: String,
}

/// The test's end.
#[derive(Debug)]
pub struct Events {
    events: mpsc::UnboundedReceiver<Event>,
    gate: Arc<Semaphore>,
}

impl Probe {
    /// Both ends. The gate is closed.
    pub fn new() -> (Self, Events) {
        let (sender, receiver) = mpsc::unbounded_channel();
        let gate = Arc::new(Semaphore::new(0));
        (Self { events: sender, gate: gate.clone() }, Events { events: receiver, gate })
    }

    /// Tells the test.
    pub fn say(&self, ctx: &JobContext, text: impl Into<String>) {
        // A test that has ended does not listen any more.
        let _ = self.events.send(Event { job: ctx.id(), attempt: ctx.attempt(), text: text.into() });
    }

    /// Waits until the test lets one through.
    pub async fn pass(&self) {
        if let Ok(permit) = self.gate.acquire().await {
            permit.forget();
        }
    }

    /// The same on a thread that may wait.
    pub fn pass_blocking(&self) {
        Handle::current().block_on(self.pass());
    }
}

impl Events {
    /// Waits for the next event.
    pub async fn next(&mut self) -> Event {
        within(LIMIT, "a word of a handler", self.events.recv()).await.expect("some handler can still speak")
    }

    /// Waits for the next event, which must be this.
    pub async fn expect(&mut self, text: &str) -> Event {
        let event = self.next().await;
        assert_eq!(event.text, text, "{event:?}");
        event
    }

    /// What was said and not yet heard.
    pub fn rest(&mut self) -> Vec<Event> {
        std::iter::from_fn(|| self.events.try_recv().ok()).collect()
    }

    /// Lets so many through.
    pub fn open(&self, handlers: usize) {
        self.gate.add_permits(handlers);
    }
}

impl Drop for Events {
    /// A test that failed must not leave handlers waiting: the end of its runtime would wait for them.
    fn drop(&mut self) {
        self.gate.close();
    }
}
