//! Settings of the server, the database and the role that harm jobs. The transaction of the check sets
//! `statement_timeout` itself, so for it the session's own value and its source are looked up.

use super::Check;

pub(super) const CHECK: Check = Check {
    name: "setting",
    sql: r"select severity, what, case set_by
    when 'database' then format('alter database %I reset %s', current_database(), name)
    when 'user' then format('alter role %I reset %s', current_user, name)
    when 'database user' then format('alter role %I in database %I reset %s', current_user, current_database(), name)
    else format('alter system set %s = %s', name, case name when 'default_transaction_isolation' then '''read committed''' else boot_val end) end as repair
from pg_settings cross join lateral (
    select case name when 'statement_timeout' then reset_val else setting end as value,
           case name when 'statement_timeout' then (
               select case when setrole = 0 and setdatabase = 0 then 'global' when setrole = 0 then 'database' when setdatabase = 0 then 'user' else 'database user' end
               from pg_db_role_setting
               where setdatabase in (0, (select oid from pg_database where datname = current_database()))
                 and setrole in (0, (select oid from pg_roles where rolname = session_user))
                 and exists (select from unnest(setconfig) as one where one like 'statement_timeout=%')
               order by setdatabase = 0 or setrole = 0, setrole = 0 limit 1
           ) else source end as set_by
) effective cross join lateral (
    select case name
        when 'fsync' then case when value = 'off' then 'the setting fsync is off: a crash of the machine may destroy the database' end
        when 'full_page_writes' then case when value = 'off' then 'the setting full_page_writes is off: a crash of the machine may destroy the database' end
        when 'default_transaction_read_only' then case when value = 'on' then 'transactions are read only by default, so applications cannot enqueue' end
        when 'statement_timeout' then case when value::bigint between 1 and 9999 then format('statements are cancelled after %s ms: transactions of handlers may fail, and so may migrations', value) end
        when 'idle_in_transaction_session_timeout' then case when value::bigint between 1 and 59999 then format('transactions that are idle for %s ms are ended: handlers that wait within a transaction fail', value) end
        when 'transaction_timeout' then case when value::bigint between 1 and 59999 then format('transactions are ended after %s ms: transactional handlers fail', value) end
        when 'default_transaction_isolation' then case when value <> 'read committed' then format('transactions are %s by default: handlers and enqueues may fail with conflicts', value) end
    end as what,
    case when name in ('fsync', 'full_page_writes', 'default_transaction_read_only') then 'error' else 'warning' end as severity
) judged
where what is not null",
};
