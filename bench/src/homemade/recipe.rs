//! The statements, one recipe each. None has retries, priorities or schedules, and none detects dead workers.

/// How a job is taken and ended.
#[derive(Debug)]
pub(crate) struct Recipe {
    pub(crate) name: &'static str,
    /// The statements that create its table, `todo`.
    pub(crate) table: &'static str,
    /// The statement before each job. It opens a transaction that stays open while the job runs.
    pub(crate) begin: Option<&'static str>,
    /// Returns the id of the job that it takes, or no row.
    pub(crate) take: &'static str,
    /// The statement that ends the job. `$1` is the job's id.
    pub(crate) end: &'static str,
    /// The statement after each job.
    pub(crate) after: Option<&'static str>,
}

const PLAIN: &str =
    "create table todo (id bigint primary key, status text not null default 'new', args jsonb not null);
    create index on todo (status, id)";
const PARTIAL: &str =
    "create table todo (id bigint primary key, status text not null default 'new', args jsonb not null);
    create index on todo (id) where status = 'new'";
const BARE: &str = "create table todo (id bigint primary key, args jsonb not null)";
const PARTITIONED: &str =
    "create table todo (id bigint not null, status text not null default 'new', args jsonb not null)
        partition by list (status);
    create table todo_new partition of todo (primary key (id)) for values in ('new');
    create table todo_running partition of todo (primary key (id)) for values in ('running');
    create table todo_done partition of todo (primary key (id)) for values in ('done')";
const TAKE_SKIPPING: &str = "update todo set status = 'running'
    where id = (select id from todo where status = 'new' order by id limit 1 for update skip locked) returning id";
const TAKE_WITHOUT_LOCK: &str = "update todo set status = 'running'
    where id = (select id from todo where status = 'new' order by id limit 1) returning id";
const DONE: &str = "update todo set status = 'done' where id = $1 and status = 'running'";

/// In the order of the guide's page.
pub(crate) const RECIPES: [Recipe; 8] = [
    Recipe {
        name: "one transaction, SKIP LOCKED",
        table: BARE,
        begin: Some("begin"),
        take: "select id from todo order by id limit 1 for update skip locked",
        end: "delete from todo where id = $1",
        after: Some("commit"),
    },
    Recipe {
        name: "one transaction, FOR UPDATE alone",
        table: BARE,
        begin: Some("begin"),
        take: "select id from todo order by id limit 1 for update",
        end: "delete from todo where id = $1",
        after: Some("commit"),
    },
    Recipe {
        name: "status, index on all, SKIP LOCKED",
        table: PLAIN,
        begin: None,
        take: TAKE_SKIPPING,
        end: DONE,
        after: None,
    },
    Recipe {
        name: "status, partial index, SKIP LOCKED",
        table: PARTIAL,
        begin: None,
        take: TAKE_SKIPPING,
        end: DONE,
        after: None,
    },
    Recipe { name: "status, no lock", table: PARTIAL, begin: None, take: TAKE_WITHOUT_LOCK, end: DONE, after: None },
    Recipe {
        name: "status, SERIALIZABLE",
        table: "create table todo (id bigint primary key, status text not null default 'new', args jsonb not null);
            create index on todo (id) where status = 'new';
            do $$ begin execute format('alter database %I set default_transaction_isolation = serializable',
                current_database()); end $$",
        begin: None,
        take: TAKE_WITHOUT_LOCK,
        end: DONE,
        after: None,
    },
    Recipe {
        name: "status, advisory lock with LIMIT",
        table: PARTIAL,
        begin: None,
        take: "select id from todo where status = 'new' and pg_try_advisory_lock(id) order by id limit 1",
        end: "update todo set status = 'done' where id = $1",
        after: Some("select pg_advisory_unlock_all()"),
    },
    Recipe {
        name: "partitions by status, SKIP LOCKED",
        table: PARTITIONED,
        begin: None,
        take: TAKE_SKIPPING,
        end: DONE,
        after: None,
    },
];
