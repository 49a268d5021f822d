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
    lock table jobs.ready, jobs.held, jobs.running in access exclusive mode;
    if lower(coalesce(current_setting('jobs.allow_drop', true), '')) not in ('on', 'true', 'yes', '1') then
        select (select count(*) from jobs.ready) + (select count(*) from jobs.held) into waiting;
        select count(*) into running from jobs.running;
        if waiting + running > 0 then
            raise exception 'jobs: % waiting and % running, which this would delete. Let workers finish them or cancel them; to delete them, '
                'use `worker migrate down --delete-jobs`, or PGOPTIONS=''-c jobs.allow_drop=on'' with diesel, or `set jobs.allow_drop = ''on''` in psql',
                waiting, running using errcode = 'object_in_use';
        end if;
    end if;

    drop view jobs.job;
    drop function
        jobs.is_possible, jobs.are_possible, jobs.place, jobs.rule_of, jobs.allowed, jobs.hold_again, jobs.replace_waiting, jobs.take_key, jobs.take_keys, jobs.rule,
        jobs.rules, jobs.with_tenant, jobs.flags, jobs.canonical, jobs.key, jobs.unique_rule,
        jobs.notify_workers, jobs.enqueue_for_discarded, jobs.wake, jobs.wake_admission, jobs.is_too_deep, jobs.enqueue, jobs.put_back,
        jobs.enqueue_unique_one, jobs.enqueue_unique_free, jobs.enqueue_unique_alike, jobs.enqueue_unique, jobs.is_used, jobs.next_in_sequence,
        jobs.heads, jobs.free_jobs, jobs.free_in_sequence, jobs.bucket, jobs.free_in_rate, jobs.next_tenants, jobs.free_of_tenants, jobs.free_in_fair,
        jobs.waits_at_limit, jobs.next_token_of, jobs.tokens, jobs.spend_tokens, jobs.free_of, jobs.beside_sequence, jobs.start_in_lane, jobs.refuse,
        jobs.admit_each, jobs.start_or_refuse, jobs.wait_at, jobs.free_in_lane, jobs.full_rule, jobs.admit_several, jobs.next_token,
        jobs.note_failure, jobs.admit_held, jobs.set_held_apart, jobs.lowered_floors, jobs.write_floors, jobs.admit_keys,
        jobs.lacks_rights, jobs.admit_each_key, jobs.sweep_each, jobs.admit, jobs.sweep_turns, jobs.sweep, jobs.may_be_full,
        jobs.full_jobs, jobs.cancel, jobs.retry, jobs.reschedule, jobs.act_on, jobs.act, jobs.lock_each, jobs.cancel_jobs, jobs.retry_jobs, jobs.free_permits;
    drop table
        jobs.schema_migration, jobs.ready, jobs.running, jobs.finished, jobs.payload, jobs.job_error, jobs.dead_letter, jobs.output,
        jobs.on_discarded, jobs.worker, jobs.queue, jobs.installation, jobs.schedule, jobs.kind, jobs.retention, jobs.audit,
        jobs.operation, jobs.history, jobs.sample, jobs.held, jobs.admission_floor, jobs.permit, jobs.nudge, jobs.rate, jobs.fair_turn,
        jobs.admission_failure, jobs.admission, jobs.expiry, jobs.limit_setting, jobs.unique_key;
    -- The tables needed these.
    drop function jobs.set_payload_aside, jobs.check_rules, jobs.wake_for_settings, jobs.lane, jobs.floor_number, jobs.queue_filter;
    drop sequence jobs.job_id;
    drop domain jobs.instant, jobs.tags, jobs.smallint_from_0, jobs.smallint_from_1, jobs.integer_from_0;
    drop schema jobs;
end
$$;
