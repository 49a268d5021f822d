-- Removes everything of jobs, waiting jobs included.
-- Locks: access exclusive on the tables of this schema only.

drop schema jobs cascade;
