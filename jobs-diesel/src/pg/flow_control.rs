//! What operators do to limits, permits and unique keys.

use async_trait::async_trait;
use diesel_jobs_core::JobId;
use diesel_jobs_core::storage::{
    Count, FlowControl, KeyOfJob, LimitSetting, PermitOfJob, StorageResult, check_change, check_most, check_no_sequence,
};

use super::queries::{limit_setting, release, sequence};
use super::{PgStorage, run};

#[async_trait]
impl FlowControl for PgStorage {
    async fn limit_settings(&self) -> StorageResult<Vec<LimitSetting>> {
        run!(self, "limit_settings", conn => limit_setting::list(conn))
    }

    async fn set_limit(&self, name: &str, most: u32, actor: &str, reason: Option<&str>) -> StorageResult<bool> {
        check_change("limit", name, actor, reason)?;
        check_most(name, most)?;
        check_no_sequence(name, run!(self, "is_sequence", conn => limit_setting::is_sequence(conn, name))?)?;
        run!(self, "set_limit", conn => limit_setting::set(conn, name, most, actor, reason))
    }

    async fn reset_limit(&self, name: &str, actor: &str) -> StorageResult<bool> {
        check_change("limit", name, actor, None)?;
        run!(self, "reset_limit", conn => limit_setting::reset(conn, name, actor))
    }

    async fn permit(&self, job: JobId) -> StorageResult<PermitOfJob> {
        run!(self, "permit", conn => release::permit(conn, job))
    }

    async fn release_permit(&self, job: JobId, actor: &str) -> StorageResult<PermitOfJob> {
        check_change("job", "job", actor, None)?;
        run!(self, "release_permit", conn => release::release_permit(conn, job, actor))
    }

    async fn unique_key(&self, job: JobId) -> StorageResult<Option<KeyOfJob>> {
        run!(self, "unique_key", conn => release::key(conn, job))
    }

    async fn release_key(&self, job: JobId, actor: &str) -> StorageResult<Option<KeyOfJob>> {
        check_change("job", "job", actor, None)?;
        run!(self, "release_key", conn => release::release_key(conn, job, actor))
    }

    async fn count_halted(&self) -> StorageResult<Count> {
        run!(self, "count_halted", conn => sequence::count(conn))
    }
}
