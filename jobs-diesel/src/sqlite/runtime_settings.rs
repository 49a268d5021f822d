//! What operators change while workers run, on SQLite.

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use diesel_jobs_core::storage::{
    Asked, HaltedSequence, KindSettings, NewSchedule, QueueSettings, RetentionSetting, RunningJob, RuntimeSettings,
    ScheduleChange, ScheduleRecord, ScheduleSettings, Scheduled, StorageResult, check_change, check_retention,
    check_slots,
};
use diesel_jobs_core::{JobState, NewJob, WorkerId};

use crate::schedule_checks::{check_jobs, check_new, check_new_times};
use crate::sqlite::operator::SqliteOperator;
use crate::sqlite::queries::{ask_worker, change_schedule, list_schedules, pause, retention, sequence, slots};

#[async_trait]
impl RuntimeSettings for SqliteOperator {
    async fn queues(&self) -> StorageResult<Vec<QueueSettings>> {
        self.reader.read(pause::queues).await
    }

    async fn pause_queue(&self, name: &str, actor: &str, reason: Option<&str>) -> StorageResult<bool> {
        check_change("queue", name, actor, reason)?;
        let (name, actor, reason) = (name.to_owned(), actor.to_owned(), reason.map(str::to_owned));
        self.writer.write(move |conn| pause::of_queue::pause(conn, &name, &actor, reason.as_deref())).await
    }

    async fn resume_queue(&self, name: &str, actor: &str) -> StorageResult<bool> {
        check_change("queue", name, actor, None)?;
        let (name, actor) = (name.to_owned(), actor.to_owned());
        self.writer.write(move |conn| pause::of_queue::resume(conn, &name, &actor)).await
    }

    async fn set_slots(&self, queue: &str, number: Option<u32>, actor: &str) -> StorageResult<bool> {
        check_change("queue", queue, actor, None)?;
        check_slots(number)?;
        let (queue, actor) = (queue.to_owned(), actor.to_owned());
        self.writer.write(move |conn| slots::set_slots(conn, &queue, number, &actor)).await
    }

    async fn running_in(&self, queue: &str) -> StorageResult<u64> {
        let queue = queue.to_owned();
        self.reader.read(move |conn| ask_worker::running_in(conn, &queue)).await
    }

    async fn kinds(&self) -> StorageResult<Vec<KindSettings>> {
        self.reader.read(pause::kinds).await
    }

    async fn pause_kind(&self, name: &str, actor: &str, reason: Option<&str>) -> StorageResult<bool> {
        check_change("kind", name, actor, reason)?;
        let (name, actor, reason) = (name.to_owned(), actor.to_owned(), reason.map(str::to_owned));
        self.writer.write(move |conn| pause::of_kind::pause(conn, &name, &actor, reason.as_deref())).await
    }

    async fn resume_kind(&self, name: &str, actor: &str) -> StorageResult<bool> {
        check_change("kind", name, actor, None)?;
        let (name, actor) = (name.to_owned(), actor.to_owned());
        self.writer.write(move |conn| pause::of_kind::resume(conn, &name, &actor)).await
    }

    async fn halted_sequences(&self, limit: usize) -> StorageResult<Vec<HaltedSequence>> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        self.reader.read(move |conn| sequence::halted(conn, limit)).await
    }

    async fn skip_sequence(&self, name: &str, key: &str, actor: &str) -> StorageResult<bool> {
        check_change("sequence", name, actor, None)?;
        let (name, key, actor) = (name.to_owned(), key.to_owned(), actor.to_owned());
        self.writer.write(move |conn| sequence::skip(conn, &name, &key, &actor)).await
    }

    async fn retention(&self) -> StorageResult<Vec<RetentionSetting>> {
        self.reader.read(retention::list).await
    }

    async fn set_retention(&self, setting: &RetentionSetting, actor: &str) -> StorageResult<bool> {
        check_change("kind", setting.kind.as_deref().unwrap_or("all"), actor, None)?;
        check_retention(setting)?;
        let (setting, actor) = (setting.clone(), actor.to_owned());
        self.writer.write(move |conn| retention::set(conn, &setting, &actor)).await
    }

    async fn unset_retention(&self, kind: Option<&str>, state: JobState, actor: &str) -> StorageResult<bool> {
        check_change("kind", kind.unwrap_or("all"), actor, None)?;
        let (kind, actor) = (kind.map(str::to_owned), actor.to_owned());
        self.writer.write(move |conn| retention::unset(conn, kind.as_deref(), state, &actor)).await
    }

    async fn ask_worker(&self, worker: WorkerId, asked: Asked, actor: &str) -> StorageResult<bool> {
        check_change("worker", "worker", actor, None)?;
        let actor = actor.to_owned();
        self.writer.write(move |conn| ask_worker::ask(conn, worker, asked, &actor)).await
    }

    async fn running(&self, worker: WorkerId) -> StorageResult<Vec<RunningJob>> {
        self.reader.read(move |conn| ask_worker::running(conn, worker)).await
    }
}

#[async_trait]
impl ScheduleSettings for SqliteOperator {
    async fn list_schedules(&self) -> StorageResult<(Vec<ScheduleRecord>, DateTime<Utc>)> {
        self.reader.read(list_schedules::list).await
    }

    async fn add_schedule(&self, schedule: &NewSchedule, actor: &str) -> StorageResult<Scheduled> {
        check_change("schedule", &schedule.name, actor, None)?;
        check_new(schedule)?;
        let (schedule, actor) = (schedule.clone(), actor.to_owned());
        self.writer.write(move |conn| change_schedule::add(conn, &schedule, &actor)).await
    }

    async fn change_schedule(&self, name: &str, change: &ScheduleChange, actor: &str) -> StorageResult<Scheduled> {
        check_change("schedule", name, actor, None)?;
        let (schedules, _) = self.list_schedules().await?;
        check_new_times(&schedules, name, change)?;
        let (name, change, actor) = (name.to_owned(), change.clone(), actor.to_owned());
        self.writer.write(move |conn| change_schedule::change(conn, &name, &change, &actor)).await
    }

    async fn reset_schedule(&self, name: &str, actor: &str) -> StorageResult<Scheduled> {
        check_change("schedule", name, actor, None)?;
        let (name, actor) = (name.to_owned(), actor.to_owned());
        self.writer.write(move |conn| change_schedule::reset_to_declared(conn, &name, &actor)).await
    }

    async fn pause_schedule(&self, name: &str, actor: &str, reason: Option<&str>) -> StorageResult<Scheduled> {
        check_change("schedule", name, actor, reason)?;
        let (name, actor, reason) = (name.to_owned(), actor.to_owned(), reason.map(str::to_owned));
        self.writer.write(move |conn| change_schedule::pause(conn, &name, &actor, reason.as_deref())).await
    }

    async fn resume_schedule(&self, name: &str, actor: &str) -> StorageResult<Scheduled> {
        check_change("schedule", name, actor, None)?;
        let (name, actor) = (name.to_owned(), actor.to_owned());
        self.writer.write(move |conn| change_schedule::resume(conn, &name, &actor)).await
    }

    async fn remove_schedule(&self, name: &str, actor: &str) -> StorageResult<Scheduled> {
        check_change("schedule", name, actor, None)?;
        let (name, actor) = (name.to_owned(), actor.to_owned());
        self.writer.write(move |conn| change_schedule::remove(conn, &name, &actor)).await
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
        let (name, jobs, action, actor) = (name.to_owned(), jobs.to_vec(), action.to_owned(), actor.to_owned());
        self.writer.write(move |conn| change_schedule::enqueue(conn, &name, &jobs, &action, &actor, None)).await
    }
}
