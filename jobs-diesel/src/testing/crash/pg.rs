//! Reads the application's tables on PostgreSQL. A rollback resets neither sequences nor clocks. So columns whose
//! default uses one of them are left out. Generated columns and foreign keys to such columns are left out, too.

use async_trait::async_trait;
use diesel::prelude::*;
use diesel::sql_types::Text;
use diesel_async::{
    AnsiTransactionManager, AsyncConnection as _, AsyncPgConnection, RunQueryDsl, TransactionManager as _,
};

use super::connection::{CrashConnection, set};
use super::contents::Contents;
use super::point::CrashPoint;

pub(super) const TABLES: &str = r"
with recursive varying as (
    select a.attrelid, a.attnum
    from pg_attribute a left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
    where a.attnum > 0 and not a.attisdropped
      and (a.attidentity <> '' or a.attgenerated <> '' or pg_get_expr(d.adbin, d.adrelid)
          ~* E'nextval|now\\(\\)|current_(timestamp|date|time)|local(time|timestamp)|(clock|statement)_timestamp|random|uuid')
    union
    select k.conrelid, k.conkey[array_position(k.confkey, v.attnum)]
    from pg_constraint k join varying v on v.attrelid = k.confrelid and v.attnum = any(k.confkey)
    where k.contype = 'f'
)
select format('%I.%I', n.nspname, c.relname) as name,
       format('select (to_jsonb(t.*) - %L::text[])::text as text from %I.%I t', left_out, n.nspname, c.relname) as rows
from pg_class c join pg_namespace n on n.oid = c.relnamespace, lateral (select array(
    select a.attname::text from varying v join pg_attribute a using (attrelid, attnum) where v.attrelid = c.oid
) as left_out) l
where c.relkind = 'r' and n.nspname not in ('jobs', 'jobs_bench', 'information_schema') and n.nspname !~ '^pg_'
order by 1";

#[derive(QueryableByName)]
pub(super) struct Table {
    #[diesel(sql_type = Text)]
    pub(super) name: String,
    /// The query for its rows.
    #[diesel(sql_type = Text)]
    pub(super) rows: String,
}

#[derive(QueryableByName)]
pub(super) struct Row {
    #[diesel(sql_type = Text)]
    pub(super) text: String,
}

#[async_trait]
impl CrashConnection for AsyncPgConnection {
    async fn begin(&mut self) -> QueryResult<()> {
        AnsiTransactionManager::begin_transaction(self).await
    }

    async fn roll_back(&mut self) -> QueryResult<()> {
        AnsiTransactionManager::rollback_transaction(self).await
    }

    async fn instrument(&mut self, point: Option<&CrashPoint>) {
        set!(self, point);
    }

    async fn contents(&mut self) -> QueryResult<Contents> {
        let mut contents = Contents::default();
        let tables: Vec<Table> = RunQueryDsl::load(diesel::sql_query(TABLES), self).await?;
        for table in tables {
            let rows: Vec<Row> = RunQueryDsl::load(diesel::sql_query(table.rows), self).await?;
            contents.add(table.name, rows.into_iter().map(|row| row.text).collect());
        }
        Ok(contents)
    }
}
