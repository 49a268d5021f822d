-- Drops the schema `jobs` and our objects in it, and nothing else. If the schema also contains a table of the
-- application, this fails and reverts nothing. A role named `jobs` creates its tables there, because its search path
-- begins with the schema of its name.
--
-- Fails while jobs wait or run, because it would delete them, unless the setting jobs.allow_drop is on:
--   worker migrate down --delete-jobs
--   PGOPTIONS='-c jobs.allow_drop=on' diesel migration revert
--   set jobs.allow_drop = 'on';    -- in psql, before this
--
-- It is one statement, because psql continues with the next statement after an error.
-- Locks: access exclusive on the tables of this schema only.

do $$
declare
    waiting bigint;
    running bigint;
begin
    -- The lock is taken before the rows are counted, so that no session enqueues after the count.
    lock table jobs.ready, jobs.running in access exclusive mode;
    if lower(coalesce(current_setting('jobs.allow_drop', true), '')) not in ('on', 'true', 'yes', '1') then
        select count(*) into waiting from jobs.ready;
        select count(*) into running from jobs.running;
        if waiting + running > 0 then
            raise exception 'jobs: % waiting and % running, which this would delete. Let workers finish them or cancel them; to delete them, '
                'use `worker migrate down --delete-jobs`, or PGOPTIONS=''-c jobs.allow_drop=on'' with diesel, or `set jobs.allow_drop = ''on''` in psql',
                waiting, running using errcode = 'object_in_use';
        end if;
    end if;

    drop function jobs.put_back(bigint);
    drop function jobs.enqueue(text, json, text, integer, timestamptz, integer, text[]);
    drop function jobs.wake(text);
    drop view jobs.job;
    drop table jobs.ready, jobs.running, jobs.finished, jobs.payload, jobs.job_error, jobs.dead_letter, jobs.worker, jobs.queue, jobs.installation, jobs.schedule, jobs.schema_migration;
    drop function jobs.set_payload_aside();
    drop function jobs.queue_filter(text[]);
    drop sequence jobs.job_id;
    drop domain jobs.instant, jobs.tags, jobs.smallint_from_0, jobs.smallint_from_1, jobs.integer_from_0;
    drop schema jobs;
end
$$;
