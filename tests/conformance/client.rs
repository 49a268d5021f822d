//! A connection of the application, of any type.

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use diesel_jobs_core::{Enqueued, InvalidJob, JobContext, JobId, NewJob, Selected, Selection, Tagged};
use diesel_jobs_storage::{ChangeError, CompleteError, EnqueueError, MigrateError};

/// What the tests do on a connection of the application.
#[async_trait]
pub(crate) trait Client: Send {
    async fn begin(&mut self);
    async fn commit(&mut self);
    async fn rollback(&mut self);
    /// Runs SQL statements.
    async fn execute(&mut self, sql: &str) -> Result<(), diesel::result::Error>;
    /// Returns the result of a `select` of one number with the name `number`.
    async fn number(&mut self, sql: &str) -> i64;
    async fn enqueue(&mut self, job: NewJob) -> Result<JobId, EnqueueError>;
    async fn enqueue_all(&mut self, jobs: Vec<NewJob>) -> Result<Vec<JobId>, EnqueueError>;
    /// The whole answer to an enqueue.
    async fn answer(&mut self, job: NewJob) -> Result<Enqueued, EnqueueError>;
    async fn answers(&mut self, jobs: Vec<NewJob>) -> Result<Vec<Enqueued>, EnqueueError>;
    async fn cancel(&mut self, which: Which) -> Result<usize, ChangeError>;
    async fn retry(&mut self, which: Which) -> Result<usize, ChangeError>;
    async fn reschedule(&mut self, which: Which, at: DateTime<Utc>) -> Result<usize, ChangeError>;
    async fn complete_in(&mut self, ctx: &JobContext) -> Result<(), CompleteError>;
    async fn migrate(&mut self) -> Result<(), MigrateError>;
}

/// The jobs that a client changes.
#[derive(Clone, Debug)]
pub(crate) enum Which {
    One(JobId),
    Some(Vec<JobId>),
    Tag(&'static str),
    Like(NewJob),
}

impl Selection for Which {
    fn selected(self) -> Result<Selected, InvalidJob> {
        match self {
            Self::One(id) => id.selected(),
            Self::Some(ids) => ids.as_slice().selected(),
            Self::Tag(tag) => Tagged(tag).selected(),
            Self::Like(job) => job.selected(),
        }
    }
}

/// The row that [`Client::number`] reads.
#[derive(diesel::QueryableByName)]
pub(crate) struct Number {
    #[diesel(sql_type = diesel::sql_types::BigInt)]
    pub(crate) number: i64,
}

/// The ids of a bulk.
pub(crate) fn ids(enqueued: Vec<Enqueued>) -> Vec<JobId> {
    enqueued.into_iter().map(JobId::from).collect()
}

/// Enqueues the jobs, a single one as an application enqueues one.
pub(crate) async fn insert(client: &mut dyn Client, jobs: Vec<NewJob>) -> Vec<JobId> {
    match <[NewJob; 1]>::try_from(jobs) {
        Ok([job]) => vec![client.enqueue(job).await.unwrap()],
        Err(jobs) => client.enqueue_all(jobs).await.unwrap(),
    }
}

/// Implements [`Client`] for a connection of Diesel.
macro_rules! sync_client {
    ($conn:ty) => {
        #[async_trait::async_trait]
        impl crate::client::Client for $conn {
            async fn begin(&mut self) {
                use diesel::connection::{Connection, TransactionManager};
                <$conn as Connection>::TransactionManager::begin_transaction(self).unwrap();
            }
            async fn commit(&mut self) {
                use diesel::connection::{Connection, TransactionManager};
                <$conn as Connection>::TransactionManager::commit_transaction(self).unwrap();
            }
            async fn rollback(&mut self) {
                use diesel::connection::{Connection, TransactionManager};
                <$conn as Connection>::TransactionManager::rollback_transaction(self).unwrap();
            }
            async fn execute(&mut self, sql: &str) -> Result<(), diesel::result::Error> {
                diesel::connection::SimpleConnection::batch_execute(self, sql)
            }
            async fn number(&mut self, sql: &str) -> i64 {
                let row: crate::client::Number = diesel::RunQueryDsl::get_result(diesel::sql_query(sql), self).unwrap();
                row.number
            }
            async fn enqueue(
                &mut self,
                job: diesel_jobs_core::NewJob,
            ) -> Result<diesel_jobs_core::JobId, diesel_jobs_storage::EnqueueError> {
                diesel_jobs_storage::Enqueue::enqueue(job, self).map(Into::into)
            }
            async fn enqueue_all(
                &mut self,
                jobs: Vec<diesel_jobs_core::NewJob>,
            ) -> Result<Vec<diesel_jobs_core::JobId>, diesel_jobs_storage::EnqueueError> {
                diesel_jobs_storage::enqueue_all(self, jobs).map(crate::client::ids)
            }
            async fn answer(
                &mut self,
                job: diesel_jobs_core::NewJob,
            ) -> Result<diesel_jobs_core::Enqueued, diesel_jobs_storage::EnqueueError> {
                diesel_jobs_storage::Enqueue::enqueue(job, self)
            }
            async fn answers(
                &mut self,
                jobs: Vec<diesel_jobs_core::NewJob>,
            ) -> Result<Vec<diesel_jobs_core::Enqueued>, diesel_jobs_storage::EnqueueError> {
                diesel_jobs_storage::enqueue_all(self, jobs)
            }
            async fn cancel(&mut self, which: crate::client::Which) -> Result<usize, diesel_jobs_storage::ChangeError> {
                diesel_jobs_storage::Change::cancel(which, self)
            }
            async fn retry(&mut self, which: crate::client::Which) -> Result<usize, diesel_jobs_storage::ChangeError> {
                diesel_jobs_storage::Change::retry(which, self)
            }
            async fn reschedule(
                &mut self,
                which: crate::client::Which,
                at: chrono::DateTime<chrono::Utc>,
            ) -> Result<usize, diesel_jobs_storage::ChangeError> {
                diesel_jobs_storage::Change::reschedule(which, self, at)
            }
            async fn complete_in(
                &mut self,
                ctx: &diesel_jobs_core::JobContext,
            ) -> Result<(), diesel_jobs_storage::CompleteError> {
                diesel_jobs_storage::CompleteIn::complete_in(ctx, self)
            }
            async fn migrate(&mut self) -> Result<(), diesel_jobs_storage::MigrateError> {
                diesel_jobs_storage::TransactionConnection::migrate(self)
            }
        }
    };
}

/// Implements [`Client`] for a connection of diesel-async.
macro_rules! async_client {
    ($conn:ty) => {
        #[async_trait::async_trait]
        impl crate::client::Client for $conn {
            async fn begin(&mut self) {
                use diesel_async::{AsyncConnection, TransactionManager};
                <$conn as AsyncConnection>::TransactionManager::begin_transaction(self).await.unwrap();
            }
            async fn commit(&mut self) {
                use diesel_async::{AsyncConnection, TransactionManager};
                <$conn as AsyncConnection>::TransactionManager::commit_transaction(self).await.unwrap();
            }
            async fn rollback(&mut self) {
                use diesel_async::{AsyncConnection, TransactionManager};
                <$conn as AsyncConnection>::TransactionManager::rollback_transaction(self).await.unwrap();
            }
            async fn execute(&mut self, sql: &str) -> Result<(), diesel::result::Error> {
                diesel_async::SimpleAsyncConnection::batch_execute(self, sql).await
            }
            async fn number(&mut self, sql: &str) -> i64 {
                let query = diesel::sql_query(sql);
                let row: crate::client::Number = diesel_async::RunQueryDsl::get_result(query, self).await.unwrap();
                row.number
            }
            async fn enqueue(
                &mut self,
                job: diesel_jobs_core::NewJob,
            ) -> Result<diesel_jobs_core::JobId, diesel_jobs_storage::EnqueueError> {
                diesel_jobs_storage::Enqueue::enqueue(job, self).await.map(Into::into)
            }
            async fn enqueue_all(
                &mut self,
                jobs: Vec<diesel_jobs_core::NewJob>,
            ) -> Result<Vec<diesel_jobs_core::JobId>, diesel_jobs_storage::EnqueueError> {
                diesel_jobs_storage::enqueue_all(self, jobs).await.map(crate::client::ids)
            }
            async fn answer(
                &mut self,
                job: diesel_jobs_core::NewJob,
            ) -> Result<diesel_jobs_core::Enqueued, diesel_jobs_storage::EnqueueError> {
                diesel_jobs_storage::Enqueue::enqueue(job, self).await
            }
            async fn answers(
                &mut self,
                jobs: Vec<diesel_jobs_core::NewJob>,
            ) -> Result<Vec<diesel_jobs_core::Enqueued>, diesel_jobs_storage::EnqueueError> {
                diesel_jobs_storage::enqueue_all(self, jobs).await
            }
            async fn cancel(&mut self, which: crate::client::Which) -> Result<usize, diesel_jobs_storage::ChangeError> {
                diesel_jobs_storage::Change::cancel(which, self).await
            }
            async fn retry(&mut self, which: crate::client::Which) -> Result<usize, diesel_jobs_storage::ChangeError> {
                diesel_jobs_storage::Change::retry(which, self).await
            }
            async fn reschedule(
                &mut self,
                which: crate::client::Which,
                at: chrono::DateTime<chrono::Utc>,
            ) -> Result<usize, diesel_jobs_storage::ChangeError> {
                diesel_jobs_storage::Change::reschedule(which, self, at).await
            }
            async fn complete_in(
                &mut self,
                ctx: &diesel_jobs_core::JobContext,
            ) -> Result<(), diesel_jobs_storage::CompleteError> {
                diesel_jobs_storage::CompleteIn::complete_in(ctx, self).await
            }
            async fn migrate(&mut self) -> Result<(), diesel_jobs_storage::MigrateError> {
                diesel_jobs_storage::TransactionConnection::migrate(self).await
            }
        }
    };
}

pub(crate) use {async_client, sync_client};
