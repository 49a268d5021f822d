//! The server's queue of notifications. It is one for all databases, and keeps each notification until every session
//! that listens has read it. A session in a transaction reads none. When the queue is full, every transaction that has
//! notified fails at its commit.
//!
//! No view shows which sessions listen, so the oldest transactions are named, and none is to be ended without a look.
//! From 25 % on, `jobs.notify_workers` sends nothing.

use super::Check;

/// The name of the check.
pub(crate) const NOTIFICATIONS: &str = "notification_queue";

pub(super) const CHECK: Check = Check {
    name: NOTIFICATIONS,
    sql: r#"select case when share < 0.25 then 'warning' else 'error' end as severity,
       format('%s %% of the queue of notifications is in use, which all databases of the server share%s; when it is full, transactions that notify fail; '
              'a session that has executed LISTEN holds it up while it is in a transaction; ', floor(100 * share),
              case when share < 0.25 then '' else ': enqueues notify no worker until it is below 25 %, so idle workers find jobs at their next poll' end)
       || case when candidates is null then 'this role sees no session in a transaction'
               else format('no view shows whether a session listens, and these are in a transaction, the oldest first: %s', candidates) end as what,
       'end the transaction of the session that listens; from 50 % on, the server''s log names its process ("among those with the oldest transactions"). '
       || 'Do not end a session of which you do not know that it listens: a dump, for example, has an old transaction, and holds nothing up. '
       || 'All candidates: select pid, application_name, usename, datname, state, xact_start, query from pg_stat_activity '
       || 'where backend_type = ''client backend'' and xact_start is not null order by xact_start' as repair
from (select pg_notification_queue_usage() as share) as queue
cross join (
    select string_agg(format('process %s (%s, role %s, database %s, %s), open since %s, its statement: %s',
                             pid, coalesce(nullif(application_name, ''), 'no application name'), usename, datname, coalesce(state, 'no state'),
                             to_char(xact_start at time zone 'UTC', 'YYYY-MM-DD HH24:MI:SSZ'), left(regexp_replace(query, E'\\s+', ' ', 'g'), 100)),
                      '; ' order by xact_start, pid) as candidates
    from (
        select * from pg_stat_activity
        where backend_type = 'client backend' and pid <> pg_backend_pid() and xact_start is not null
        order by xact_start, pid limit 3
    ) as oldest
) as sessions
where share > 0.01
union all
select 'skipped', format('the role %I sees only its own transactions, and not which other session holds up the queue of notifications', current_user),
       format('grant pg_read_all_stats to %I', current_user)
where pg_notification_queue_usage() > 0.01 and not pg_has_role(current_user, 'pg_read_all_stats', 'usage')"#,
};
