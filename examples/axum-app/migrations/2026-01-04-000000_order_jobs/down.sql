-- Forgets which jobs belong to which order; the jobs stay. Locks: exclusive on the table.

drop table order_jobs;
