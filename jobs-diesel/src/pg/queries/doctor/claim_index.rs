//! The index of the claim is far larger than its jobs need. Its pages do not become free while entries of later jobs
//! are on them.

use super::Check;

pub(super) const CHECK: Check = Check {
    name: "claim_index_bloat",
    sql: r"select 'warning' as severity,
       format('the index jobs.ready_claim has %s, and %s jobs wait; claims read more pages than they need', pg_size_pretty(bytes), live) as what,
       'reindex index concurrently jobs.ready_claim' as repair
from (
    select pg_relation_size('jobs.ready_claim') as bytes, n_live_tup as live
    from pg_stat_user_tables where relid = 'jobs.ready'::regclass
) index
where bytes > 4 * 1024 * 1024 and bytes > 800 * (live + 1000)",
};
