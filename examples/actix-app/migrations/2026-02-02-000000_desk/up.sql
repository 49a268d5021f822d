-- The people who answer, and the tickets that they get.
-- Locks: creates objects only.

create table agents (
    id bigint primary key generated always as identity,
    name text not null unique,
    -- How many tickets this agent has got. The end-to-end test compares it with the tickets themselves.
    assigned bigint not null default 0
);

create table tickets (
    id bigint primary key generated always as identity,
    email text not null,
    subject text not null,
    agent_id bigint references agents,
    opened_at timestamptz not null default now(),
    closed_at timestamptz
);

create index tickets_open on tickets (email) where closed_at is null;

-- With these two the example works without further commands.
insert into agents (name) values ('Ada'), ('Grace');
