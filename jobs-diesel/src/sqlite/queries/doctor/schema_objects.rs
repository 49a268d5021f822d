//! The objects of our schema, each with the statement that creates it.

use diesel::SqliteConnection;
use diesel::prelude::*;
use diesel::sql_query;
use diesel::sql_types::Text;

const OBJECTS: &str = "
select type as kind, name, sql as definition from sqlite_master
where sql is not null and (tbl_name like 'jobs\\_%' escape '\\' or name like 'jobs\\_%' escape '\\') and name <> 'jobs_allow_drop'
order by name";

/// An object of the schema.
#[derive(Clone, Debug, PartialEq, Eq, QueryableByName)]
pub(crate) struct SchemaObject {
    #[diesel(sql_type = Text)]
    pub(crate) kind: String,
    #[diesel(sql_type = Text)]
    pub(crate) name: String,
    #[diesel(sql_type = Text)]
    pub(crate) definition: String,
}

pub(crate) fn schema_objects(conn: &mut SqliteConnection) -> QueryResult<Vec<SchemaObject>> {
    sql_query(OBJECTS).load(conn)
}
