-- Creates two roles with only the privileges that they need. The owner of the schema `jobs`, not one of these roles,
-- runs the migrations.
--
--   jobs_enqueuer  adds jobs, from Rust or with jobs.enqueue(..), and cancels, retries and reschedules them with
--                  jobs.cancel(..), jobs.retry(..) and jobs.reschedule(..), each of which writes to the audit. It reads
--                  the columns that a status page shows: kind, queue, state, attempts and times. It cannot read
--                  arguments, tags, errors and outputs, because they may contain data that is not meant for it.
--   jobs_worker    runs and operates jobs: `run`, and all commands of operators, such as `retry`, `queues pause` and
--                  `freeze`. It cannot run DDL, and it cannot change or delete what the audit says.
--
-- Grant the two roles to your login roles. Also grant these the privileges that they need on the application's own
-- tables.
--
--   worker migrate roles | psql "$OWNER_URL"
--   psql "$OWNER_URL" -c 'grant jobs_enqueuer to web' -c 'grant jobs_worker to background'
--
-- Run this script as the schema's owner or as a superuser, after the first `worker migrate` and after each upgrade. It
-- revokes all privileges of the two roles and grants those that this version needs. Both happen in one transaction, so
-- running programs are not affected. Creating the roles requires CREATEROLE. If the owner does not have it, another
-- role must create them before. For other names, replace the two names: `| sed s/jobs_worker/acme_worker/g`.
--
-- A handler that calls `complete_in` or `enqueue` on its own pool does so as the role of that pool. For `complete_in`
-- that role needs jobs_worker. For `enqueue` either of the two roles is enough.
-- A role that enqueues and reads the outputs of jobs needs, in addition to jobs_enqueuer:
--   grant select (output, output_note) on jobs.job to ..
-- A role that only reads jobs, with their arguments, needs:
--   grant usage on schema jobs to ..; grant select on jobs.job to ..

begin;

do $$
begin
    if to_regrole('jobs_enqueuer') is null then create role jobs_enqueuer; end if;
    if to_regrole('jobs_worker') is null then create role jobs_worker; end if;
end
$$;

-- Revoking a privilege on a table also revokes it on all columns of the table.
revoke all on all tables in schema jobs from jobs_enqueuer, jobs_worker;
revoke all on all sequences in schema jobs from jobs_enqueuer, jobs_worker;
revoke all on schema jobs from jobs_enqueuer, jobs_worker;
revoke all on all routines in schema jobs from jobs_enqueuer, jobs_worker;

-- The insert reads `id` and `queue` in its `returning` clause. The role cannot set the columns of a new job that are
-- not listed here. They get their defaults.
grant usage on schema jobs to jobs_enqueuer;
grant usage on sequence jobs.job_id to jobs_enqueuer;
grant insert (kind, queue, priority, run_at, max_attempts, tags, args, traceparent), select (id, queue) on jobs.ready to jobs_enqueuer;
-- It inserts unique jobs and jobs that expire with the rights of the owner, because the role must not choose the id of a job.
grant execute on function jobs.enqueue_unique_one(text, text, json, text, text, smallint, timestamptz, smallint, text[], json, text, json) to jobs_enqueuer, jobs_worker;
grant execute on function jobs.enqueue_unique_free(text, text, boolean, float8, text, text, text, smallint, timestamptz, smallint, text[], json, text) to jobs_enqueuer, jobs_worker;
grant execute on function jobs.enqueue_unique_alike(text, text[], boolean, float8, text, text, text, smallint, timestamptz, smallint, text[], json[], text) to jobs_enqueuer, jobs_worker;
grant execute on function jobs.enqueue_unique(text[], text[], boolean[], float8[], json[], text[], text[], smallint[], interval[], timestamptz[], smallint[], text[], json[], text[], json[], interval[]) to jobs_enqueuer, jobs_worker;
-- jobs.cancel, jobs.retry and jobs.reschedule call this function.
grant execute on function jobs.act(text, bigint[], text, text, text, timestamptz) to jobs_enqueuer, jobs_worker;
-- A job with a limit is held at first.
grant insert (kind, queue, priority, run_at, max_attempts, tags, args, traceparent, rules, limit_name, limit_key, most, flags, later), select (id)
    on jobs.held to jobs_enqueuer;
grant insert on jobs.nudge to jobs_enqueuer;
grant select (idle, queue_filter) on jobs.worker to jobs_enqueuer;
grant select (id, kind, queue, state, priority, attempt, max_attempts, run_at, enqueued_at, claimed_at, finished_at)
    on jobs.job to jobs_enqueuer;

-- The other functions run with the rights of their caller. By default everybody may execute them, but a database may have
-- `alter default privileges revoke execute on functions from public`. The functions of triggers need no privilege.
do $$
declare
    routine regprocedure;
begin
    for routine in select oid from pg_proc where pronamespace = 'jobs'::regnamespace and not prosecdef and prorettype <> 'trigger'::regtype loop
        execute format('grant execute on routine %s to jobs_enqueuer, jobs_worker', routine);
    end loop;
end
$$;

-- No statement updates a job's row, but `for update` requires the update privilege on at least one column.
grant usage on schema jobs to jobs_worker;
grant usage on sequence jobs.job_id to jobs_worker;
grant select, insert, delete, update (id) on jobs.ready, jobs.running, jobs.finished to jobs_worker;
-- Admission updates these columns of held jobs.
grant select, insert, delete, update (later, paused, run_at, limit_name, limit_key, most, flags) on jobs.held to jobs_worker;
grant select, insert, delete on jobs.permit, jobs.nudge, jobs.admission_floor, jobs.rate, jobs.fair_turn to jobs_worker;
-- A discarded job halts its sequence.
grant update (halted_at) on jobs.permit to jobs_worker;
grant select, delete, update (job_id) on jobs.unique_key to jobs_worker;
grant select, insert, update on jobs.admission to jobs_worker;
grant select, insert, update, delete on jobs.limit_setting to jobs_worker;
grant select, insert, update, delete on jobs.admission_failure to jobs_worker;
grant select, delete, update (start_by) on jobs.expiry to jobs_worker;
grant select, delete on jobs.payload to jobs_worker;
grant select, insert, delete on jobs.job_error to jobs_worker;
grant select, insert, update, delete on jobs.output, jobs.on_discarded to jobs_worker;
grant select, insert on jobs.dead_letter to jobs_worker;
grant select, insert, delete, update on jobs.worker to jobs_worker;
grant select, insert, update, delete on jobs.schedule, jobs.retention to jobs_worker;
grant select, insert, update on jobs.queue, jobs.kind to jobs_worker;
grant select, insert, delete, update (id) on jobs.history to jobs_worker;
grant select, insert, update on jobs.operation to jobs_worker;
grant select, insert on jobs.audit to jobs_worker;
grant select, insert, update on jobs.sample to jobs_worker;
-- Inserts number the rows of these tables without a privilege on the sequences. The doctor and a worker that starts compare them with the numbers in use.
grant select on sequence jobs.job_error_id_seq, jobs.dead_letter_number_seq, jobs.history_id_seq, jobs.operation_id_seq, jobs.audit_id_seq to jobs_worker;
grant select on jobs.installation, jobs.schema_migration, jobs.job to jobs_worker;
-- This role can freeze and thaw. Only the owner can set the environment of the database.
grant insert (frozen_at, frozen_by, frozen_reason), update (frozen_at, frozen_by, frozen_reason) on jobs.installation to jobs_worker;

-- A worker reads from a message of the server that a lock was not available. With this privilege it asks for messages that are not translated.
-- Only a superuser can grant it, and before version 15 it cannot be granted at all. If it is missing where it is needed, `worker doctor` says so. The table that
-- is locked belongs to all databases, and two grants at once would fail.
do $$
begin
    if current_setting('server_version_num')::int >= 150000 then
        execute 'lock table pg_catalog.pg_parameter_acl in share row exclusive mode';
        execute 'grant set on parameter lc_messages to jobs_worker';
    end if;
exception when insufficient_privilege then
    null;
end
$$;

commit;
