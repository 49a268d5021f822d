//! Rows that the database refused to move on, so that they were set apart. No worker runs these jobs again by itself.

use super::Check;

pub(super) const CHECK: Check = Check {
    name: "set_apart",
    sql: r"select 'warning' as severity,
       format('%s %s set apart in jobs.dead_letter, because the database refused to move %s on; the newest at %s: job %s of kind `%s` in queue `%s`: %s',
              d.count, case d.count when 1 then 'row was' else 'rows were' end, d.them, to_char(l.at::timestamptz at time zone 'UTC', 'YYYY-MM-DD HH24:MI:SSZ'),
              l.id, left(l.kind, 200), left(l.queue, 200), l.reason) as what,
       format(E'to see %s: select * from jobs.dead_letter order by number desc\nto enqueue the newest again, under a new id: select jobs.put_back(%s)\nto drop it: delete from jobs.dead_letter where number = %s',
              d.them, l.number, l.number) as repair
from (select count(*), case count(*) when 1 then 'it' else 'them' end as them from jobs.dead_letter) d
cross join lateral (select * from jobs.dead_letter order by number desc limit 1) l",
};
