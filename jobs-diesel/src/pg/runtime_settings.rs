//! What operators change while workers run.

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use diesel_jobs_core::storage::{
    Asked, HaltedSequence, KindSettings, NewSchedule, QueueSettings, RetentionSetting, RunningJob, RuntimeSettings,
    ScheduleChange, ScheduleRecord, ScheduleSettings, Scheduled, StorageResult, check_change, check_retention,
    check_slots,
};
use diesel_jobs_core::{JobState, NewJob, WorkerId};

use super::queries::{ask_worker, change_schedule, list_schedules, pause, retention, sequence, slots};
use super::{PgStorage, run};
use crate::schedule_checks::{check_jobs, check_new, check_new_times};

#[async_trait]
impl RuntimeSettings for PgStorage {
    async fn queues(&self) -> StorageResult<Vec<QueueSettings>> {
        run!(self, "queues", conn => pause::queues(conn))
    }

    async fn pause_queue(&self, name: &str, actor: &str, reason: Option<&str>) -> StorageResult<bool> {
        check_change("queue", name, actor, reason)?;
        run!(self, "pause_queue", conn => pause::of_queue::pause(conn, name, actor, reason))
    }

    async fn resume_queue(&self, name: &str, actor: &str) -> StorageResult<bool> {
        check_change("queue", name, actor, None)?;
        run!(self, "resume_queue", conn => pause::of_queue::resume(conn, name, actor))
    }

    async fn set_slots(&self, queue: &str, number: Option<u32>, actor: &str) -> StorageResult<bool> {
        check_change("queue", queue, actor, None)?;
        check_slots(number)?;
        run!(self, "set_slots", conn => slots::set_slots(conn, queue, number, actor))
    }

    async fn running_in(&self, queue: &str) -> StorageResult<u64> {
        run!(self, "running_in", conn => ask_worker::running_in(conn, queue))
    }

    async fn kinds(&self) -> StorageResult<Vec<KindSettings>> {
        run!(self, "kinds", conn => pause::kinds(conn))
    }

    async fn pause_kind(&self, name: &str, actor: &str, reason: Option<&str>) -> StorageResult<bool> {
        check_change("kind", name, actor, reason)?;
        run!(self, "pause_kind", conn => pause::of_kind::pause(conn, name, actor, reason))
    }

    async fn resume_kind(&self, name: &str, actor: &str) -> StorageResult<bool> {
        check_change("kind", name, actor, None)?;
        run!(self, "resume_kind", conn => pause::of_kind::resume(conn, name, actor))
    }

    async fn halted_sequences(&self, limit: usize) -> StorageResult<Vec<HaltedSequence>> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        run!(self, "halted_sequences", conn => sequence::halted(conn, limit))
    }

    async fn skip_sequence(&self, name: &str, key: &str, actor: &str) -> StorageResult<bool> {
        check_change("sequence", name, actor, None)?;
        run!(self, "skip_sequence", conn => sequence::skip(conn, name, key, actor))
    }

    async fn retention(&self) -> StorageResult<Vec<RetentionSetting>> {
        run!(self, "retention", conn => retention::list(conn))
    }

    async fn set_retention(&self, setting: &RetentionSetting, actor: &str) -> StorageResult<bool> {
        check_change("kind", setting.kind.as_deref().unwrap_or("all"), actor, None)?;
        check_retention(setting)?;
        run!(self, "set_retention", conn => retention::set(conn, setting, actor))
    }

    async fn unset_retention(&self, kind: Option<&str>, state: JobState, actor: &str) -> StorageResult<bool> {
        check_change("kind", kind.unwrap_or("all"), actor, None)?;
        run!(self, "unset_retention", conn => retention::unset(conn, kind, state, actor))
    }

    async fn ask_worker(&self, worker: WorkerId, asked: Asked, actor: &str) -> StorageResult<bool> {
        check_change("worker", "worker", actor, None)?;
        run!(self, "ask_worker", conn => ask_worker::ask(conn, worker, asked, actor))
    }

    async fn running(&self, worker: WorkerId) -> StorageResult<Vec<RunningJob>> {
        run!(self, "running", conn => ask_worker::running(conn, worker))
    }
}

#[async_trait]
impl ScheduleSettings for PgStorage {
    async fn list_schedules(&self) -> StorageResult<(Vec<ScheduleRecord>, DateTime<Utc>)> {
        run!(self, "list_schedules", conn => list_schedules::list(conn))
    }

    async fn add_schedule(&self, schedule: &NewSchedule, actor: &str) -> StorageResult<Scheduled> {
        check_change("schedule", &schedule.name, actor, None)?;
        check_new(schedule)?;
        run!(self, "add_schedule", conn => change_schedule::add(conn, schedule, actor))
    }

    async fn change_schedule(&self, name: &str, change: &ScheduleChange, actor: &str) -> StorageResult<Scheduled> {
        check_change("schedule", name, actor, None)?;
        let (schedules, _) = self.list_schedules().await?;
        check_new_times(&schedules, name, change)?;
        run!(self, "change_schedule", conn => change_schedule::change(conn, name, change, actor))
    }

    async fn reset_schedule(&self, name: &str, actor: &str) -> StorageResult<Scheduled> {
        check_change("schedule", name, actor, None)?;
        run!(self, "reset_schedule", conn => change_schedule::reset_to_declared(conn, name, actor))
    }

    async fn pause_schedule(&self, name: &str, actor: &str, reason: Option<&str>) -> StorageResult<Scheduled> {
        check_change("schedule", name, actor, reason)?;
        run!(self, "pause_schedule", conn => change_schedule::pause(conn, name, actor, reason))
    }

    async fn resume_schedule(&self, name: &str, actor: &str) -> StorageResult<Scheduled> {
        check_change("schedule", name, actor, None)?;
        run!(self, "resume_schedule", conn => change_schedule::resume(conn, name, actor))
    }

    async fn remove_schedule(&self, name: &str, actor: &str) -> StorageResult<Scheduled> {
        check_change("schedule", name, actor, None)?;
        run!(self, "remove_schedule", conn => change_schedule::remove(conn, name, actor))
    }

    async fn enqueue_for_schedule(
        &self,
        name: &str,
        jobs: &[NewJob],
        action: &str,
        actor: &str,
    ) -> StorageResult<Scheduled> {
        check_change("schedule", name, actor, None)?;
        check_jobs(jobs)?;
        run!(self, "enqueue_for_schedule", conn => change_schedule::enqueue(conn, name, jobs, action, actor))
    }
}
