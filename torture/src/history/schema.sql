-- What happened, as those say who were there. Written past everything that is being tested, by the database's clock.

create schema torture;

-- What the suite enqueued, and whether it was told so. `number` is the suite's own and stands in the job's arguments:
-- ids of transactions that a crash swallowed may come again.
create table torture.enqueued (
    number bigint primary key,
    job bigint,
    outcome text not null check (outcome in ('acknowledged', 'rolled_back', 'unknown')),
    ends text not null check (ends in ('completed', 'cancelled', 'discarded', 'called_off')),
    transactional boolean not null,
    failures smallint not null,
    max_attempts smallint not null
);

-- What handlers said. `id` lets a writer repeat what may not have arrived.
create table torture.event (
    id uuid primary key,
    number bigint not null,
    job bigint not null,
    lease integer not null,
    attempt smallint not null,
    worker uuid not null,
    pid integer not null,
    what text not null,
    at timestamptz not null default clock_timestamp()
);

-- What transactional handlers wrote through the connection they were given. Nothing here is unique: doubles shall show.
create table torture.effect (
    number bigint not null,
    lease integer not null,
    worker uuid not null,
    at timestamptz not null default clock_timestamp()
);

-- What the suite did to them.
create table torture.fault (
    what text not null,
    pid integer,
    at timestamptz not null default clock_timestamp()
);
