//! What the sessions of a worker are set to, whatever the server, the database or the role say.
//!
//! Settings go in as start-up options, so that they cost no round trip. A pooler may refuse them (the connection is then
//! opened without) or ignore them; where the defaults that are left would break the worker's statements, each of its verbs runs in
//! a transaction that begins by setting what it needs ([`begin`]).
//!
//! Not set here: `search_path`, `DateStyle`, `IntervalStyle`, `TimeZone`. Every statement names its schema, and
//! values go both ways in binary.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use diesel::sql_types::{Bool, Double};
use diesel::{QueryResult, QueryableByName};
use diesel_async::{AnsiTransactionManager, AsyncPgConnection, TransactionManager as _};

/// The lease that is assumed until a worker registers with its own.
const UNTOLD: Duration = Duration::from_secs(30);

/// Shared by all connectors of one storage.
#[derive(Clone, Debug)]
pub(crate) struct Lease(Arc<AtomicU64>);

impl Default for Lease {
    fn default() -> Self {
        Self(Arc::new(AtomicU64::new(millis(UNTOLD))))
    }
}

impl Lease {
    /// `true`: connections that were opened before have other settings.
    pub(crate) fn tell(&self, lease: Duration) -> bool {
        self.0.swap(millis(lease), Ordering::AcqRel) != millis(lease)
    }

    /// After how much silence of the other end a connection ends.
    pub(crate) fn line(&self) -> Line {
        Line::within(Duration::from_millis(self.0.load(Ordering::Acquire)))
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// When each end takes the other for gone. A host that vanishes says nothing: without these a server keeps its session, with the
/// rows it locked, for two hours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    /// Silence before the first probe.
    pub(crate) idle: Duration,
    /// Between probes.
    pub(crate) interval: Duration,
    pub(crate) probes: u32,
    /// What was sent and is not acknowledged.
    pub(crate) unacknowledged: Duration,
    /// How often a server looks at the line while a statement runs.
    pub(crate) check: Duration,
}

impl Line {
    /// Idle, interval and probes together make a lease: an outage that a lease survives breaks no connection.
    fn within(lease: Duration) -> Self {
        let seconds = |share: u32| Duration::from_secs((lease / share).as_secs().clamp(1, 3600));
        Self {
            idle: seconds(2),
            interval: seconds(8),
            probes: 4,
            unacknowledged: lease.clamp(Duration::from_secs(1), Duration::from_secs(4 * 3600)),
            check: (lease / 8).clamp(Duration::from_millis(100), Duration::from_secs(2)),
        }
    }

    /// As start-up options, for the server's end. On a Unix-domain socket they mean nothing, and do no harm.
    pub(crate) fn options(self) -> String {
        format!(
            "-c tcp_keepalives_idle={} -c tcp_keepalives_interval={} -c tcp_keepalives_count={} \
             -c tcp_user_timeout={} -c client_connection_check_interval={}",
            self.idle.as_secs(),
            self.interval.as_secs(),
            self.probes,
            self.unacknowledged.as_millis(),
            self.check.as_millis()
        )
    }
}

/// What saves time. The tables of a queue are empty at one moment and full at the next, so that no statistics describe them: all
/// statements are written for nested loops over indexes, and the planner is told so. Plans are made once, for any values;
/// otherwise each claim would be planned anew, which takes longer than it. Nor is anything compiled, which would take
/// hundreds of milliseconds. Nor are parallel workers started: what `enable_seqscan` makes dear looks worth it, and starting
/// them takes longer than any of these statements. And a statement whose answer nobody waits for any more has an end.
pub(crate) fn speed(limit: Duration) -> String {
    format!(
        "-c jit=off -c plan_cache_mode=force_generic_plan -c enable_seqscan=off -c enable_bitmapscan=off \
         -c enable_hashjoin=off -c enable_mergejoin=off -c max_parallel_workers_per_gather=0 -c statement_timeout={}",
        limit.as_millis()
    )
}

/// What the worker's statements are written for. Above read committed they fail wherever two workers meet, and users' serializable
/// transactions fail because of them; among serializable transactions only do reads conflict with writes.
pub(crate) fn pinned(limit: Duration) -> String {
    format!(
        "-c default_transaction_isolation=read\\ committed -c default_transaction_read_only=off -c lock_timeout=0 \
         -c idle_in_transaction_session_timeout={} -c idle_session_timeout=0",
        limit.as_millis()
    )
}

/// Whether a pooler or the server refused the settings of a connection: PgBouncer names the "startup parameter", RDS Proxy speaks of
/// "command-line options", and a server names a setting that it or its system does not have.
pub(crate) fn are_refused(problem: &str) -> bool {
    ["startup parameter", "command-line options", "unrecognized configuration parameter", "invalid value for parameter"]
        .iter()
        .any(|part| problem.contains(part))
}

#[derive(QueryableByName)]
struct Defaults {
    /// Whether the session has the settings above.
    #[diesel(sql_type = Bool)]
    ours: bool,
    #[diesel(sql_type = Bool)]
    plain: bool,
    /// In seconds; 0: none.
    #[diesel(sql_type = Double)]
    statement_timeout: f64,
}

/// Whether the worker's transactions have to say what they need, because this session's defaults are others.
pub(crate) async fn must_say(conn: &mut AsyncPgConnection, limit: Duration) -> QueryResult<bool> {
    let query = diesel::sql_query(
        "select current_setting('plan_cache_mode') = 'force_generic_plan' as ours,
                current_setting('default_transaction_isolation') = 'read committed'
                    and current_setting('default_transaction_read_only') = 'off'
                    and current_setting('lock_timeout') = '0' as plain,
                extract(epoch from current_setting('statement_timeout')::interval)::float8 as statement_timeout",
    );
    let defaults: Defaults = diesel_async::RunQueryDsl::get_result(query, conn).await?;
    let is_short = defaults.statement_timeout > 0.0 && defaults.statement_timeout < limit.as_secs_f64();
    Ok(!defaults.ours && (!defaults.plain || is_short))
}

/// Something about the sessions of one storage that the first connection tells.
#[derive(Clone, Debug, Default)]
pub(crate) struct Told(Arc<AtomicBool>);

impl Told {
    pub(crate) fn learn(&self, holds: bool) {
        if holds {
            self.0.store(true, Ordering::Release);
        }
    }

    pub(crate) fn is_known(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// Begins a transaction of the worker's own that says what it needs, in one message.
pub(crate) async fn begin(conn: &mut AsyncPgConnection, limit: Duration) -> QueryResult<()> {
    let limit = limit.as_millis();
    let begin = format!(
        "begin isolation level read committed read write; set local lock_timeout = 0; \
         set local statement_timeout = {limit}; set local idle_in_transaction_session_timeout = {limit}"
    );
    AnsiTransactionManager::begin_transaction_sql(conn, &begin).await
}

/// Ends it.
pub(crate) async fn end<T>(conn: &mut AsyncPgConnection, answer: QueryResult<T>) -> QueryResult<T> {
    match answer {
        Ok(answer) => AnsiTransactionManager::commit_transaction(conn).await.map(|()| answer),
        Err(error) => {
            // What went wrong first is worth more.
            let _ = AnsiTransactionManager::rollback_transaction(conn).await;
            Err(error)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silent_end_is_given_up_within_a_lease() {
        for seconds in [3, 10, 30, 3600] {
            let lease = Duration::from_secs(seconds);
            let line = Line::within(lease);
            let last_probe = line.idle + line.interval * line.probes;
            assert!(last_probe.min(line.idle + line.unacknowledged) <= lease + Duration::from_secs(2), "{line:?}");
            assert!(line.unacknowledged + line.check <= lease + Duration::from_secs(2), "{line:?}");
        }
    }

    #[test]
    fn a_refusal_of_settings_is_told_from_others() {
        assert!(are_refused("db error: FATAL: unsupported startup parameter: options"));
        assert!(are_refused("FATAL: unrecognized configuration parameter \"client_connection_check_interval\""));
        assert!(!are_refused("FATAL: password authentication failed for user \"x\""));
    }
}
