//! The objects of our schema: columns, indexes, constraints, functions and triggers, each with the statement that
//! creates it.

use diesel::prelude::*;
use diesel::sql_query;
use diesel::sql_types::Text;
use diesel_async::{AsyncConnection as _, AsyncPgConnection, RunQueryDsl, SimpleAsyncConnection as _};
use serde::{Deserialize, Serialize};

const OBJECTS: &str = r"
select 'column' as kind, format('jobs.%I.%I', c.relname, a.attname) as name,
       case when c.relkind = 'v' then format('column %I %s of the view jobs.%I', a.attname, format_type(a.atttypid, a.atttypmod), c.relname)
       else format('alter table jobs.%I add column %I %s%s%s%s', c.relname, a.attname, format_type(a.atttypid, a.atttypmod),
                   case when a.attcollation not in (0, t.typcollation) then format(' collate %I', l.collname) else '' end,
                   case when a.attnotnull then ' not null' else '' end,
                   case when a.attidentity <> '' then ' generated always as identity'
                        when a.attgenerated <> '' then format(' generated always as (%s) stored', pg_get_expr(d.adbin, d.adrelid))
                        when d.adbin is not null then ' default ' || pg_get_expr(d.adbin, d.adrelid) else '' end) end as definition,
       case when c.relkind = 'v' then '' else format('alter table jobs.%I drop column %I', c.relname, a.attname) end as removal
from pg_attribute a join pg_class c on c.oid = a.attrelid join pg_namespace n on n.oid = c.relnamespace
join pg_type t on t.oid = a.atttypid
left join pg_collation l on l.oid = a.attcollation
left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
where n.nspname = 'jobs' and c.relkind in ('r', 'p', 'v') and a.attnum > 0 and not a.attisdropped
union all
select 'index', format('jobs.%I', c.relname), pg_get_indexdef(i.indexrelid), format('drop index jobs.%I', c.relname)
from pg_index i join pg_class c on c.oid = i.indexrelid join pg_namespace n on n.oid = c.relnamespace
where n.nspname = 'jobs' and not exists (select from pg_constraint k where k.conindid = i.indexrelid and k.contype in ('p', 'u', 'x'))
  and c.relname !~ '_ccnew[0-9]*$' and c.relname !~ '_ccold[0-9]*$' and not exists (select from pg_class t where t.oid = i.indrelid and t.relkind = 't')
union all
select 'constraint', format('jobs.%I.%I', c.relname, k.conname), format('alter table jobs.%I add constraint %I %s', c.relname, k.conname, pg_get_constraintdef(k.oid)),
       format('alter table jobs.%I drop constraint %I', c.relname, k.conname)
from pg_constraint k join pg_class c on c.oid = k.conrelid join pg_namespace n on n.oid = c.relnamespace
where n.nspname = 'jobs' and k.contype in ('p', 'u', 'c', 'x', 'f')
union all
select 'function', p.oid::regprocedure::text, pg_get_functiondef(p.oid), format('drop function %s', p.oid::regprocedure)
from pg_proc p join pg_namespace n on n.oid = p.pronamespace
where n.nspname = 'jobs' and p.prokind in ('f', 'p')
union all
select 'trigger', format('jobs.%I.%I', c.relname, t.tgname), pg_get_triggerdef(t.oid), format('drop trigger %I on jobs.%I', t.tgname, c.relname)
from pg_trigger t join pg_class c on c.oid = t.tgrelid join pg_namespace n on n.oid = c.relnamespace
where n.nspname = 'jobs' and not t.tgisinternal and t.tgenabled <> 'D'
order by 1, 2";

/// An object of the schema.
#[derive(Clone, Debug, PartialEq, Eq, QueryableByName, Serialize, Deserialize)]
pub(crate) struct SchemaObject {
    #[diesel(sql_type = Text)]
    pub(crate) kind: String,
    #[diesel(sql_type = Text)]
    pub(crate) name: String,
    /// The statement that creates it. For a column of a view: a description.
    #[diesel(sql_type = Text)]
    pub(crate) definition: String,
    /// The statement that removes it.
    #[diesel(sql_type = Text)]
    pub(crate) removal: String,
}

/// The settings that decide how the server writes definitions.
const WRITTEN: &str = "set local search_path = ''; set local quote_all_identifiers = off; set local extra_float_digits = 1; \
    set local datestyle = 'ISO'; set local intervalstyle = 'postgres'; set local timezone = 'UTC'; set local bytea_output = 'hex'";

pub(crate) async fn schema_objects(conn: &mut AsyncPgConnection) -> QueryResult<Vec<SchemaObject>> {
    conn.transaction(async |conn| {
        conn.batch_execute(WRITTEN).await?;
        sql_query(OBJECTS).load(conn).await
    })
    .await
}
