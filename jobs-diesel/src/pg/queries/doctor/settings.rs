//! Settings of the server, the database and the role that harm jobs.

use super::Check;

pub(super) const CHECK: Check = Check {
    name: "setting",
    sql: r"select severity, what, case source
    when 'database' then format('alter database %I reset %s', current_database(), name)
    when 'user' then format('alter role %I reset %s', current_user, name)
    when 'database user' then format('alter role %I in database %I reset %s', current_user, current_database(), name)
    else format('alter system set %s = %s', name, case name when 'default_transaction_isolation' then '''read committed''' else boot_val end) end as repair
from pg_settings cross join lateral (
    select case name
        when 'fsync' then case when setting = 'off' then 'the setting fsync is off: a crash of the machine may destroy the database' end
        when 'full_page_writes' then case when setting = 'off' then 'the setting full_page_writes is off: a crash of the machine may destroy the database' end
        when 'default_transaction_read_only' then case when setting = 'on' then 'transactions are read only by default, so applications cannot enqueue' end
        when 'statement_timeout' then case when setting::bigint between 1 and 9999 then format('statements are cancelled after %s ms: transactions of handlers may fail, and so may migrations', setting) end
        when 'idle_in_transaction_session_timeout' then case when setting::bigint between 1 and 59999 then format('transactions that are idle for %s ms are ended: handlers that wait within a transaction fail', setting) end
        when 'transaction_timeout' then case when setting::bigint between 1 and 59999 then format('transactions are ended after %s ms: transactional handlers fail', setting) end
        when 'default_transaction_isolation' then case when setting <> 'read committed' then format('transactions are %s by default: handlers and enqueues may fail with conflicts', setting) end
    end as what,
    case when name in ('fsync', 'full_page_writes', 'default_transaction_read_only') then 'error' else 'warning' end as severity
) judged
where what is not null",
};
