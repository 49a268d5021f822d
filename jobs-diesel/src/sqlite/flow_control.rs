//! What operators do to limits, permits and unique keys, on SQLite.

use async_trait::async_trait;
use diesel_jobs_core::JobId;
use diesel_jobs_core::storage::{
    Count, FlowControl, KeyOfJob, LimitSetting, PermitOfJob, StorageResult, check_change, check_most, check_no_sequence,
};

use crate::sqlite::operator::SqliteOperator;
use crate::sqlite::queries::{limit_setting, release, sequence};

#[async_trait]
impl FlowControl for SqliteOperator {
    async fn limit_settings(&self) -> StorageResult<Vec<LimitSetting>> {
        self.reader.read(limit_setting::list).await
    }

    async fn set_limit(&self, name: &str, most: u32, actor: &str, reason: Option<&str>) -> StorageResult<bool> {
        check_change("limit", name, actor, reason)?;
        check_most(name, most)?;
        let of = name.to_owned();
        check_no_sequence(name, self.reader.read(move |conn| limit_setting::is_sequence(conn, &of)).await?)?;
        let (name, actor, reason) = (name.to_owned(), actor.to_owned(), reason.map(str::to_owned));
        self.writer.write(move |conn| limit_setting::set(conn, &name, most, &actor, reason.as_deref())).await
    }

    async fn reset_limit(&self, name: &str, actor: &str) -> StorageResult<bool> {
        check_change("limit", name, actor, None)?;
        let (name, actor) = (name.to_owned(), actor.to_owned());
        self.writer.write(move |conn| limit_setting::reset(conn, &name, &actor)).await
    }

    async fn permit(&self, job: JobId) -> StorageResult<PermitOfJob> {
        self.reader.read(move |conn| release::permit(conn, job)).await
    }

    async fn release_permit(&self, job: JobId, actor: &str) -> StorageResult<PermitOfJob> {
        check_change("job", "job", actor, None)?;
        let actor = actor.to_owned();
        self.writer.write(move |conn| release::release_permit(conn, job, &actor)).await
    }

    async fn unique_key(&self, job: JobId) -> StorageResult<Option<KeyOfJob>> {
        self.reader.read(move |conn| release::key(conn, job)).await
    }

    async fn release_key(&self, job: JobId, actor: &str) -> StorageResult<Option<KeyOfJob>> {
        check_change("job", "job", actor, None)?;
        let actor = actor.to_owned();
        self.writer.write(move |conn| release::release_key(conn, job, &actor)).await
    }

    async fn count_halted(&self) -> StorageResult<Count> {
        self.reader.read(sequence::count).await
    }
}
