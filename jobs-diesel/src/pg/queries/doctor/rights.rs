//! Rights that a worker needs and this role lacks. The list is that of `worker migrate roles`. Functions are in one
//! line, because usually either all of them or none can be executed.

use super::Check;

pub(super) const CHECK: Check = Check {
    name: "rights",
    sql: r"select 'error' as severity, format('the role %I may not %s jobs.%s, which a worker needs', current_user, lower(privilege), name) as what,
       format('grant %s on jobs.%s to %I', lower(privilege), name, current_user) as repair
from (values
    ('ready', 'SELECT, INSERT, DELETE'), ('running', 'SELECT, INSERT, DELETE'), ('finished', 'SELECT, INSERT, DELETE'),
    ('held', 'SELECT, INSERT, DELETE'), ('permit', 'SELECT, INSERT, DELETE'), ('nudge', 'SELECT, INSERT, DELETE'), ('admission_floor', 'SELECT, INSERT, DELETE'), ('admission', 'SELECT, INSERT, UPDATE'), ('rate', 'SELECT, INSERT, DELETE'), ('fair_turn', 'SELECT, INSERT, DELETE'), ('admission_failure', 'SELECT, INSERT, UPDATE, DELETE'), ('limit_setting', 'SELECT, INSERT, UPDATE, DELETE'), ('unique_key', 'SELECT, DELETE'), ('expiry', 'SELECT, DELETE'),
    ('payload', 'SELECT, DELETE'), ('job_error', 'SELECT, INSERT, DELETE'), ('output', 'SELECT, INSERT, UPDATE, DELETE'),
    ('on_discarded', 'SELECT, INSERT, UPDATE, DELETE'), ('dead_letter', 'SELECT, INSERT'), ('worker', 'SELECT, INSERT, UPDATE, DELETE'),
    ('schedule', 'SELECT, INSERT, UPDATE, DELETE'), ('queue', 'SELECT, INSERT, UPDATE'), ('kind', 'SELECT, INSERT, UPDATE'),
    ('retention', 'SELECT, INSERT, UPDATE, DELETE'), ('history', 'SELECT, INSERT, DELETE'), ('operation', 'SELECT, INSERT, UPDATE'),
    ('audit', 'SELECT, INSERT'), ('sample', 'SELECT, INSERT, UPDATE'), ('installation', 'SELECT'), ('schema_migration', 'SELECT'), ('job', 'SELECT')
) needed (name, privileges)
cross join lateral unnest(string_to_array(privileges, ', ')) as privilege
where not has_table_privilege(current_user, 'jobs.' || name, privilege)
union all
select 'error', format('the role %I may not update the column %s of jobs.held, which a worker needs', current_user, name),
       format('grant update (%s) on jobs.held to %I', name, current_user)
from unnest(array['later', 'paused', 'run_at', 'limit_name', 'limit_key', 'most', 'flags']) as name
where not has_column_privilege(current_user, 'jobs.held', name, 'UPDATE')
union all
select 'error', format('the role %I may not update the column halted_at of jobs.permit, which a worker needs', current_user),
       format('grant update (halted_at) on jobs.permit to %I', current_user)
where not has_column_privilege(current_user, 'jobs.permit', 'halted_at', 'UPDATE')
union all
select 'error', format('the role %I may not execute functions of the schema jobs that a worker needs (%s, such as %s)', current_user, count(*), min(oid::regprocedure::text)),
       'worker migrate roles | psql $OWNER_URL'
from pg_proc
where pronamespace = 'jobs'::regnamespace and prorettype <> 'trigger'::regtype and not has_function_privilege(current_user, oid, 'EXECUTE')
having count(*) > 0",
};
