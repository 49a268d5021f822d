//! Requests that may arrive twice, such as a form that a browser sends again. What was done for a request is not done a
//! second time.
//!
//! A request has a key, which the transaction of its action writes into the entry of the audit. A second transaction
//! with the key waits for the first one, finds the entry, and changes nothing. So keys need no table, and they work
//! with several web processes.

use std::fmt;
use std::str::FromStr;

use async_trait::async_trait;
use serde_json::Value;
use uuid::Uuid;

use super::StorageResult;
use super::action::{Action, Operated};
use super::audit::AuditRecord;
use super::filter::JobFilter;
use super::operations::OperationId;
use super::schedule_settings::Scheduled;
use crate::job_id::JobId;
use crate::new_job::NewJob;

/// The field of an entry of the audit that has the key.
const FIELD: &str = "request";

/// The key of a request (an idempotency key). A client that repeats the request sends the same key. The audit has the
/// keys of the requests that were performed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestKey {
    after: i64,
    id: Uuid,
}

impl RequestKey {
    /// A key for a request that is made after this entry of the audit, which is the newest one.
    pub fn new(newest: Option<i64>) -> Self {
        Self { after: newest.unwrap_or(0), id: Uuid::now_v7() }
    }

    /// Entries of the audit up to this one were made before the request. So only later ones are searched.
    #[doc(hidden)]
    pub fn after(&self) -> i64 {
        self.after
    }

    /// What an entry with the key contains.
    #[doc(hidden)]
    pub fn text(&self) -> String {
        self.id.to_string()
    }

    /// Puts the key into the details of an entry.
    #[doc(hidden)]
    #[must_use]
    pub fn mark(&self, mut detail: Value) -> Value {
        if let Value::Object(fields) = &mut detail {
            fields.insert(FIELD.to_owned(), self.text().into());
        }
        detail
    }

    /// Whether an entry has the key.
    #[doc(hidden)]
    pub fn is_of(&self, record: &AuditRecord) -> bool {
        let key = record.detail.as_ref().and_then(|detail| detail.get(FIELD)).and_then(Value::as_str);
        key.is_some_and(|key| key == self.text())
    }
}

impl fmt::Display for RequestKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.after, self.id)
    }
}

impl FromStr for RequestKey {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let read = |text: &str| {
            let (after, id) = text.split_once('-')?;
            Some(Self { after: after.parse().ok()?, id: id.parse().ok()? })
        };
        read(text).ok_or_else(|| format!("{text:?} is not the key of a request"))
    }
}

/// What happened to a request with a key. Internal, and exhaustive, so that no code of ours misses a variant.
#[derive(Clone, Debug, PartialEq)]
pub enum Once<T> {
    /// It was done now.
    Now(T),
    /// It was done before. This is what the audit has of it.
    Before(AuditRecord),
}

impl<T> Once<T> {
    /// What was done now.
    pub fn now(self) -> Option<T> {
        match self {
            Self::Now(done) => Some(done),
            Self::Before(_) => None,
        }
    }
}

/// Actions that would change more if they were performed twice, such as to enqueue jobs again. Each is performed once
/// for a key, even if several processes ask for it at the same time. An action that changed nothing may be repeated.
#[async_trait]
pub trait ActOnce: Send + Sync + 'static {
    /// [`Operator::act`](super::Operator::act), once.
    async fn act_once(
        &self,
        key: &RequestKey,
        action: &Action,
        ids: &[JobId],
        actor: &str,
    ) -> StorageResult<Once<Vec<Operated>>>;

    /// [`Operator::start_operation`](super::Operator::start_operation), once.
    async fn start_operation_once(
        &self,
        key: &RequestKey,
        action: &Action,
        filter: &JobFilter,
        actor: &str,
    ) -> StorageResult<Once<OperationId>>;

    /// [`ScheduleSettings::enqueue_for_schedule`](super::ScheduleSettings::enqueue_for_schedule), once.
    async fn enqueue_for_schedule_once(
        &self,
        key: &RequestKey,
        name: &str,
        jobs: &[NewJob],
        action: &str,
        actor: &str,
    ) -> StorageResult<Once<Scheduled>>;
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_key_is_read_as_it_is_written() {
        for newest in [None, Some(7), Some(i64::MAX)] {
            let key = RequestKey::new(newest);
            assert_eq!(key.to_string().parse(), Ok(key));
        }
        for wrong in ["", "-", "7", "x-018f4c1e-0000-7000-8000-000000000001", "7-x", "7-"] {
            assert!(wrong.parse::<RequestKey>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_entry_has_the_key_with_which_it_was_marked() {
        let (key, other) = (RequestKey::new(None), RequestKey::new(None));
        let entry = |detail| AuditRecord {
            id: 1,
            at: DateTime::UNIX_EPOCH,
            actor: "ann".to_owned(),
            action: "rerun".to_owned(),
            target: "job 7".to_owned(),
            detail,
        };
        let marked = entry(Some(key.mark(json!({ "ids": [7] }))));
        assert!(key.is_of(&marked) && !other.is_of(&marked));
        assert!(!key.is_of(&entry(None)) && !key.is_of(&entry(Some(json!({ "ids": [7] })))));
    }
}
