//! Counts what a worker does with its storage. A test that waits for further rounds of a service does not depend on how
//! long a round takes.

use std::collections::HashMap;
use std::sync::Mutex;

use diesel_jobs::metrics::{Event, Recorder};

use crate::until;

/// How many operations have succeeded and failed.
#[derive(Debug, Default)]
pub struct Rounds(Mutex<HashMap<&'static str, [usize; 2]>>);

impl Recorder for Rounds {
    fn record(&self, event: &Event<'_>) {
        if let Event::StorageOperation { operation, error, .. } = event {
            self.0.lock().unwrap().entry(operation).or_default()[usize::from(error.is_some())] += 1;
        }
    }
}

impl Rounds {
    fn of(&self, operation: &str) -> [usize; 2] {
        self.0.lock().unwrap().get(operation).copied().unwrap_or_default()
    }

    /// How many of these operations have ended.
    pub fn ended(&self, operation: &str) -> usize {
        self.of(operation).iter().sum()
    }

    /// How many of these operations have failed.
    pub fn failed(&self, operation: &str) -> usize {
        self.of(operation)[1]
    }

    /// Waits until this many more of these operations have ended. The first of them may have begun before.
    pub async fn more(&self, operation: &str, rounds: usize) {
        self.reach(operation, self.ended(operation) + rounds).await;
    }

    /// Does something, and waits until this many more of these operations have ended since before. An idle worker may
    /// have done all that follows before the answer is here.
    pub async fn after<T>(&self, action: impl Future<Output = T>, operation: &str, rounds: usize) -> T {
        let enough = self.ended(operation) + rounds;
        let answer = action.await;
        self.reach(operation, enough).await;
        answer
    }

    async fn reach(&self, operation: &str, enough: usize) {
        until(&format!("{enough} rounds of {operation}"), async || (self.ended(operation) >= enough).then_some(()))
            .await;
    }

    /// Waits until the worker follows what an operator has set. The first read may have begun before. When the third
    /// one has ended, the worker follows the second one.
    pub async fn settings(&self) {
        self.more("overrides", 3).await;
    }
}
