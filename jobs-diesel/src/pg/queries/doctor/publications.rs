//! Publications that refuse deletes and updates, because a published table has no replica identity. Then no job can be
//! claimed.

use super::Check;

pub(super) const CHECK: Check = Check {
    name: "publication",
    sql: r"select 'error' as severity,
       format('the publication %I contains jobs.%I, which has no replica identity: the server refuses all deletes and updates of it', p.pubname, c.relname) as what,
       format('alter table jobs.%I replica identity full', c.relname) as repair
from pg_publication_tables t
join pg_publication p on p.pubname = t.pubname
join pg_class c on c.oid = format('%I.%I', t.schemaname, t.tablename)::regclass
where t.schemaname = 'jobs' and (p.pubdelete or p.pubupdate)
  and (c.relreplident = 'n'
       or c.relreplident = 'd' and not exists (select from pg_index i where i.indrelid = c.oid and i.indisprimary)
       or c.relreplident = 'i' and not exists (select from pg_index i where i.indrelid = c.oid and i.indisreplident))",
};
