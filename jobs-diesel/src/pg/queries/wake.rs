//! Notifications of idle workers when their queues have jobs. None is sent while no worker of the queue is idle,
//! because `NOTIFY` takes a lock that all committing transactions of the server share. The function
//! `jobs.notify_workers` sends all of them, and none while much of the server's queue of notifications is in use.
//!
//! Enqueues are sent on connections of the application, whose `search_path` may begin with functions and operators of
//! the same names. So both conditions name the schema of each, as all statements that enqueue do.

/// The channel of the notifications.
pub(crate) const CHANNEL: &str = "jobs";

/// The condition that an idle worker may serve `queue`, and that notifications are not off. A transaction that has sent
/// a notification cannot be prepared for a two-phase commit. So an application that prepares a transaction sets
/// `jobs.notify` to `off`. Reads the few rows of `jobs.worker`.
pub(crate) const A_WORKER_IS_IDLE: &str = "coalesce(pg_catalog.current_setting('jobs.notify', true), '') operator(pg_catalog.<>) 'off' \
    and exists (select from jobs.worker where idle and pg_catalog.get_bit(queue_filter, \
        pg_catalog.hashtext(queue) operator(pg_catalog.&) 1023) operator(pg_catalog.=) 1)";

/// Notifies the workers that admit held jobs, if any worker is idle. A notification without a queue is for them. The
/// value is null if none was sent.
pub(crate) const ADMISSION_WOKEN: &str = "case when coalesce(pg_catalog.current_setting('jobs.notify', true), '') operator(pg_catalog.<>) 'off' \
    and exists (select from jobs.worker where idle) then jobs.notify_workers('') end";

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used)]
mod tests {
    use diesel::sql_types::Text;
    use diesel_async::{RunQueryDsl as _, SimpleAsyncConnection as _};

    use super::*;
    use crate::pg::tests::database;

    /// The server's default. It compiles a statement whose estimated cost is higher, at each execution.
    const JIT_ABOVE_COST: f64 = 100_000.0;

    #[derive(diesel::QueryableByName)]
    struct Line {
        #[diesel(sql_type = Text, column_name = "QUERY PLAN")]
        line: String,
    }

    /// So that all of them stop while the server's queue is well filled. For the functions in SQL, a test of the
    /// conformance suite says so.
    #[test]
    fn no_statement_notifies_by_itself() {
        for file in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/src/pg/queries")).unwrap() {
            let path = file.unwrap().path();
            if path.extension().is_some_and(|extension| extension == "rs") {
                let found = std::fs::read_to_string(&path).unwrap().contains(concat!("pg_", "notify("));
                assert!(!found, "{}: call jobs.notify_workers", path.display());
            }
        }
    }

    /// The look is part of each enqueue, on connections with the application's own settings.
    #[tokio::test]
    async fn looking_for_an_idle_worker_is_cheap_under_all_settings_of_the_planner() {
        let (mut conn, name, storage) = database().await;
        let mut users = storage.connection().await.unwrap();
        users.batch_execute("insert into jobs.worker (id, host, pid, queues, lease, idle) select gen_random_uuid(), 'h', 1, '{q}', '30s', true").await.unwrap();
        for settings in ["enable_seqscan", "enable_bitmapscan", "enable_indexonlyscan"] {
            users.batch_execute(&format!("reset all; set {settings} = off")).await.unwrap();
            for statistics in ["select 1", "analyze jobs.worker"] {
                users.batch_execute(statistics).await.unwrap();
                for look in [A_WORKER_IS_IDLE, ADMISSION_WOKEN] {
                    let explain = format!("explain select {look} from (values ('q'::text)) as jobs (queue)");
                    let lines: Vec<Line> = diesel::sql_query(explain).load(&mut users).await.unwrap();
                    let (_, cost) = lines[0].line.split_once("..").unwrap();
                    let cost: f64 = cost.split(' ').next().unwrap().parse().unwrap();
                    assert!(cost < JIT_ABOVE_COST, "{settings} = off, {statistics}: {look} costs {cost}");
                }
            }
        }
        drop((users, storage));
        conn.batch_execute(&format!("drop database {name} with (force)")).await.unwrap();
    }
}
