-- Removes everything of jobs, waiting jobs included, and nothing else: where a table of the application has come to
-- stand in the schema, as the search path of a role named `jobs` makes it, this fails and reverts nothing.
-- Locks: access exclusive on the tables of this schema only.

drop function jobs.enqueue(text, json, text, integer, timestamptz, integer, text[]);
drop function jobs.wake(text);
drop view jobs.job;
drop table jobs.ready, jobs.running, jobs.finished, jobs.payload, jobs.job_error, jobs.dead_letter, jobs.worker, jobs.queue, jobs.schedule, jobs.schema_migration;
drop function jobs.set_payload_aside();
drop function jobs.queue_filter(text[]);
drop sequence jobs.job_id;
drop schema jobs;
