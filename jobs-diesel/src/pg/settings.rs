//! The settings of a worker's sessions. They override those of the server, the database and the role.
//!
//! Settings are sent as start-up options, so that they cost no round trip. A pooler may refuse them, and then the
//! connection is opened without them. A pooler may also ignore them. If the remaining defaults would break the worker's
//! statements, each operation runs in a transaction that begins by setting what it needs ([`begin`]).
//!
//! Not set: `search_path`, `DateStyle`, `IntervalStyle`, `TimeZone`. Every statement names its schema, and values are
//! sent in binary in both directions.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use diesel::sql_types::{Bool, Double};
use diesel::{QueryResult, QueryableByName};
use diesel_async::{AnsiTransactionManager, AsyncPgConnection, TransactionManager as _};
use tokio_postgres::error::SqlState;

/// The lease that is assumed until a worker registers.
const ASSUMED_LEASE: Duration = Duration::from_secs(30);

/// The lease time of the worker. All connectors of one storage share it.
#[derive(Clone, Debug)]
pub(crate) struct LeaseTime(Arc<AtomicU64>);

impl Default for LeaseTime {
    fn default() -> Self {
        Self(Arc::new(AtomicU64::new(millis(ASSUMED_LEASE))))
    }
}

impl LeaseTime {
    /// Sets the lease. Returns `true` if connections that were opened before have other settings.
    pub(crate) fn set(&self, lease: Duration) -> bool {
        self.0.swap(millis(lease), Ordering::AcqRel) != millis(lease)
    }

    /// The keepalive settings that follow from the lease.
    pub(crate) fn keepalive(&self) -> Keepalive {
        Keepalive::within(Duration::from_millis(self.0.load(Ordering::Acquire)))
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// The settings with which each end of a connection detects that the other end is gone. A host that fails suddenly
/// sends nothing. Without these settings, a server keeps the session of such a host for two hours, with the rows that
/// it locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Keepalive {
    /// Silence before the first probe.
    pub(crate) idle: Duration,
    /// The time between two probes.
    pub(crate) interval: Duration,
    pub(crate) probes: u32,
    /// How long sent data may stay unacknowledged.
    pub(crate) unacknowledged: Duration,
    /// How often a server checks the connection while a statement runs.
    pub(crate) check: Duration,
}

impl Keepalive {
    /// The idle time and all probes together take as long as the lease. So an outage that is shorter than the lease
    /// closes no connection.
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

    /// As start-up options, for the server's end. On a Unix-domain socket they have no effect.
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

/// The settings that save time. The tables of a queue are empty at one moment and full at the next, so no statistics
/// describe them. All statements are written for nested loops over indexes, and these settings make the planner use
/// them.
///
/// Plans are made once, for any values: planning each claim again would take longer than the claim. JIT compilation is
/// off, because it takes hundreds of milliseconds. Parallel workers are off, because starting them takes longer than
/// any of these statements. The planner would start them, because `enable_seqscan=off` raises the estimated cost. The
/// time limit ends a statement when no worker waits for its answer any more.
pub(crate) fn speed(limit: Duration) -> String {
    format!(
        "-c jit=off -c plan_cache_mode=force_generic_plan -c enable_seqscan=off -c enable_bitmapscan=off \
         -c enable_hashjoin=off -c enable_mergejoin=off -c max_parallel_workers_per_gather=0 -c statement_timeout={}",
        limit.as_millis()
    )
}

/// The settings that the worker's statements are written for. Above read committed, the statements fail whenever two
/// workers meet. Users' serializable transactions would fail because of them, too. Reads conflict with writes only
/// among serializable transactions.
pub(crate) fn pinned(limit: Duration) -> String {
    format!(
        "-c default_transaction_isolation=read\\ committed -c default_transaction_read_only=off -c lock_timeout=0 \
         -c idle_in_transaction_session_timeout={} -c idle_session_timeout=0",
        limit.as_millis()
    )
}

/// Whether a pooler or the server perhaps refused the settings of a connection: PgBouncer with the first of these
/// codes, RDS Proxy with the second, and a server if it or its system does not have a setting or its value.
pub(crate) fn may_be_refused(code: &SqlState) -> bool {
    [
        SqlState::PROTOCOL_VIOLATION,
        SqlState::FEATURE_NOT_SUPPORTED,
        SqlState::UNDEFINED_OBJECT,
        SqlState::INVALID_PARAMETER_VALUE,
    ]
    .contains(code)
}

/// The same for libpq, which passes on no code. Poolers do not translate their messages: PgBouncer names the "startup
/// parameter", and RDS Proxy names "command-line options". A server names the setting in every language.
#[cfg(feature = "postgres-sync")]
pub(crate) fn are_refused(problem: &str) -> bool {
    [
        "startup parameter",
        "command-line options",
        "tcp_keepalives_",
        "tcp_user_timeout",
        "client_connection_check_interval",
    ]
    .iter()
    .any(|part| problem.contains(part))
}

#[derive(QueryableByName)]
struct Defaults {
    /// Whether the session has our settings.
    #[diesel(sql_type = Bool)]
    ours: bool,
    #[diesel(sql_type = Bool)]
    plain: bool,
    /// In seconds; 0 means no limit.
    #[diesel(sql_type = Double)]
    statement_timeout: f64,
}

/// Whether the worker's transactions must set what they need, because this session has other defaults.
pub(crate) async fn must_set(mut conn: &AsyncPgConnection, limit: Duration) -> QueryResult<bool> {
    let query = diesel::sql_query(
        "select current_setting('plan_cache_mode') = 'force_generic_plan' as ours,
                current_setting('default_transaction_isolation') = 'read committed'
                    and current_setting('default_transaction_read_only') = 'off'
                    and current_setting('lock_timeout') = '0' as plain,
                extract(epoch from current_setting('statement_timeout')::interval)::float8 as statement_timeout",
    );
    let defaults: Defaults = diesel_async::RunQueryDsl::get_result(query, &mut conn).await?;
    let is_short = defaults.statement_timeout > 0.0 && defaults.statement_timeout < limit.as_secs_f64();
    Ok(!defaults.ours && (!defaults.plain || is_short))
}

/// A fact about the sessions of one storage, learnt from the first connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fact(Arc<AtomicBool>);

impl Fact {
    pub(crate) fn learn(&self, holds: bool) {
        if holds {
            self.0.store(true, Ordering::Release);
        }
    }

    pub(crate) fn holds(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// Begins one of the worker's own transactions and sets what it needs, in one message.
pub(crate) async fn begin(conn: &mut AsyncPgConnection, limit: Duration) -> QueryResult<()> {
    let limit = limit.as_millis();
    let begin = format!(
        "begin isolation level read committed read write; set local lock_timeout = 0; \
         set local statement_timeout = {limit}; set local idle_in_transaction_session_timeout = {limit}"
    );
    AnsiTransactionManager::begin_transaction_sql(conn, &begin).await
}

/// Ends such a transaction: commits it, or rolls it back after an error.
pub(crate) async fn end<T>(conn: &mut AsyncPgConnection, answer: QueryResult<T>) -> QueryResult<T> {
    match answer {
        Ok(answer) => AnsiTransactionManager::commit_transaction(conn).await.map(|()| answer),
        Err(error) => {
            // The first error is more useful than an error of the rollback.
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
            let keepalive = Keepalive::within(lease);
            let last_probe = keepalive.idle + keepalive.interval * keepalive.probes;
            assert!(
                last_probe.min(keepalive.idle + keepalive.unacknowledged) <= lease + Duration::from_secs(2),
                "{keepalive:?}"
            );
            assert!(keepalive.unacknowledged + keepalive.check <= lease + Duration::from_secs(2), "{keepalive:?}");
        }
    }

    #[test]
    fn a_refusal_of_settings_is_told_from_others() {
        assert!(may_be_refused(&SqlState::PROTOCOL_VIOLATION) && may_be_refused(&SqlState::UNDEFINED_OBJECT));
        assert!(!may_be_refused(&SqlState::INVALID_PASSWORD) && !may_be_refused(&SqlState::INVALID_CATALOG_NAME));
    }

    #[cfg(feature = "postgres-sync")]
    #[test]
    fn a_refusal_that_libpq_passes_on_is_told_in_every_language() {
        assert!(are_refused("FATAL: unsupported startup parameter: options"));
        assert!(are_refused("FATAL:  unbekannter Konfigurationsparameter »client_connection_check_interval«"));
        assert!(!are_refused("FATAL: password authentication failed for user \"x\""));
    }
}
