//! Whether handlers of a key have overlapped beyond its limit, from the record.

use anyhow::Result;
use tokio_postgres::Client;
use torture::history::CRASH;

/// How long a handler may wait after a crash until the server has stored that it begins.
const FORGOTTEN: &str = "10 seconds";

/// The number of keys whose handlers have overlapped, and of those whose handlers have overlapped beyond the limit.
/// Attempts without an end, of suspended workers, and during a crash of the server do not count: their leases were
/// lost. So was that of a running job that newer jobs have cancelled, and a lease that a crash made the server forget
/// shortly before the handler began: another worker then got the same one.
pub(super) async fn overlapping(conn: &Client) -> Result<(i64, i64)> {
    let sql = format!(
        "with body as (
            select e.job, e.lease, e.worker, r ->> 'name' as name, r ->> 'key' as key, (r #>> '{{rule,concurrency,most}}')::integer as most,
                   min(e.at) filter (where e.what = 'start') as begun, max(e.at) filter (where e.what <> 'start') as ended
            from torture.event e join jobs.job j on j.id = e.job
            cross join lateral json_array_elements(j.rules) r
            where e.pid not in (select pid from torture.fault where what = 'stop')
              and not (j.state = 'cancelled' and j.rules #>> '{{0,rule,concurrency,on_full}}' is not null)
            group by e.job, e.lease, e.worker, r ->> 'name', r ->> 'key', r #>> '{{rule,concurrency,most}}'
        ), sound as (
            select * from body where begun < ended
            and not exists (select from torture.fault f where f.what = '{CRASH}' and f.at between begun and ended)
            and not (
                exists (select from torture.fault f where f.what = '{CRASH}' and f.at between begun - interval '{FORGOTTEN}' and begun)
                and (job, lease) in (select job, lease from torture.event group by job, lease having count(distinct worker) > 1)
            )
        ), step as (
            select name, key, most, begun as at, 1 as change from sound
            union all select name, key, most, ended, -1 from sound
        ), sum as (
            select name, key, most, sum(change) over (partition by name, key order by at, change) as running from step
        ), key as (
            select name, key, max(running) as peak, max(most) as most from sum group by name, key
        )
        select count(*) filter (where peak > 1), count(*) filter (where peak > most) from key"
    );
    let row = conn.query_one(&sql, &[]).await?;
    Ok((row.get(0), row.get(1)))
}
