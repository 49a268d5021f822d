-- Which jobs follow from an order, so that its page can show how far they are.
-- Locks: creates objects only; no foreign key on the jobs' tables, whose rows move.

create table order_jobs (
    job_id bigint primary key,
    order_id bigint not null references orders
);

create index order_jobs_order_id on order_jobs (order_id);
