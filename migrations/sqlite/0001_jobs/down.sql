-- Drops all our tables and the view.
--
-- Fails while jobs wait or run, because it would delete them, unless a table named jobs_allow_drop exists. It is a
-- table because SQLite has no settings. It is dropped together with the others. To delete the jobs, use one of these:
--   worker migrate down --delete-jobs
--   sqlite3 app.db 'create table jobs_allow_drop (yes)', then diesel migration revert
--
-- If you run this file by hand, run it in a transaction and stop at the first error (sqlite3 -bail), as Diesel does.
-- Locks: it holds the file's write lock while it drops our tables. It changes no other table.

create temp table jobs_drop_guard (live integer);

create temp trigger jobs_drop_guard_refuses before insert on jobs_drop_guard when new.live > 0 begin
    select raise(abort, 'jobs: jobs wait or run, and this would delete them. Let workers finish them or cancel them; to delete them, use `worker migrate down --delete-jobs`, or `create table jobs_allow_drop (yes)` and revert again');
end;

insert into temp.jobs_drop_guard
select count(*) from main.jobs_job
where state in ('available', 'running')
    and not exists (select 1 from main.sqlite_master where type = 'table' and name = 'jobs_allow_drop');

drop table temp.jobs_drop_guard;
drop table if exists main.jobs_allow_drop;

drop view jobs_job_view;
drop table jobs_schema_migration;
drop table jobs_job;
drop table jobs_job_error;
drop table jobs_worker;
drop table jobs_queue;
drop table jobs_installation;
drop table jobs_schedule;
drop table jobs_output;
drop table jobs_on_discarded;
drop table jobs_kind;
drop table jobs_retention;
drop table jobs_audit;
drop table jobs_operation;
drop table jobs_history;
drop table jobs_sample;
drop table jobs_permit;
drop table jobs_nudge;
drop table jobs_limit_setting;
drop table jobs_rate;
drop table jobs_fair_turn;
drop table jobs_admission_failure;
drop table jobs_unique_key;
