-- Two roles with the least they need, besides the owner of the schema `jobs`, who migrates:
--
--   jobs_enqueuer  adds jobs, through Rust or jobs.enqueue(..). Of what is there it sees what a page about a job shows: kind,
--                  queue, state, attempts and times. It reads no arguments, tags or errors, which may hold what was not meant for
--                  it, and takes back or changes nothing.
--   jobs_worker    runs jobs, and looks after them: `run`, `check`, `list`, `show`, `retry`, `cancel`, `stats`, `freeze`, `thaw`.
--                  No DDL.
--
-- They are granted to the roles that log in, beside what those need of the application's own tables:
--
--   worker migrate roles | psql "$OWNER_URL"
--   psql "$OWNER_URL" -c 'grant jobs_enqueuer to web' -c 'grant jobs_worker to background'
--
-- Run it as the schema's owner or a superuser, after the first `worker migrate` and after each upgrade. It grants what this version
-- needs and takes everything else back, in one transaction: what runs does not notice. To create the roles takes CREATEROLE; where
-- the owner lacks it, have them created before. For other names replace the two words: `| sed s/jobs_worker/acme_worker/g`.
--
-- A handler that calls `complete_in` or `enqueue` on a pool of its own does it as that pool's role: jobs_worker, or both.
-- Whoever shall only read jobs, arguments included, needs: grant usage on schema jobs to ..; grant select on jobs.job to ..

begin;

do $$
begin
    if to_regrole('jobs_enqueuer') is null then create role jobs_enqueuer; end if;
    if to_regrole('jobs_worker') is null then create role jobs_worker; end if;
end
$$;

-- Grants on columns go with those on their table.
revoke all on all tables in schema jobs from jobs_enqueuer, jobs_worker;
revoke all on all sequences in schema jobs from jobs_enqueuer, jobs_worker;
revoke all on schema jobs from jobs_enqueuer, jobs_worker;

-- `id` and `queue` are what the insert answers; everything else of a new job is the database's to say.
grant usage on schema jobs to jobs_enqueuer;
grant usage on sequence jobs.job_id to jobs_enqueuer;
grant insert (kind, queue, priority, run_at, max_attempts, tags, args), select (id, queue) on jobs.ready to jobs_enqueuer;
grant select (idle, queue_filter) on jobs.worker to jobs_enqueuer;
grant select (id, kind, queue, state, priority, attempt, max_attempts, run_at, enqueued_at, claimed_at, finished_at)
    on jobs.job to jobs_enqueuer;

-- Jobs are never updated, but `for update` asks for the right to update some column.
grant usage on schema jobs to jobs_worker;
grant usage on sequence jobs.job_id to jobs_worker;
grant select, insert, delete, update (id) on jobs.ready, jobs.running, jobs.finished to jobs_worker;
grant select, delete on jobs.payload to jobs_worker;
grant select, insert, delete on jobs.job_error to jobs_worker;
grant select, insert on jobs.dead_letter to jobs_worker;
grant select, insert, delete, update on jobs.worker to jobs_worker;
grant select, insert, update on jobs.schedule to jobs_worker;
grant select on jobs.queue, jobs.installation, jobs.schema_migration, jobs.job to jobs_worker;
-- It may freeze and thaw. Which environment the database belongs to is its owner's to say.
grant insert (frozen_at, frozen_by, frozen_reason), update (frozen_at, frozen_by, frozen_reason) on jobs.installation to jobs_worker;

commit;
