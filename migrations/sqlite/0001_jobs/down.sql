-- Removes everything of jobs, waiting jobs included.
-- Locks: holds the file's write lock while it drops its own tables; touches no others.

drop table jobs_job;
drop view jobs_job_view;
drop table jobs_job_error;
drop table jobs_worker;
drop table jobs_queue;
drop table jobs_schedule;
drop table jobs_schema_migration;
