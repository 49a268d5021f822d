-- A mail provider's side of the line, kept here so that tests can read it: one mail per idempotency key, and how often
-- it was handed in. It knows nothing of the shop's tables, as a provider would not.
-- Locks: creates objects only.

create table mails (
    idempotency_key text primary key,
    order_id bigint not null,
    address text not null,
    template text not null,
    submissions integer not null default 1,
    accepted_at timestamptz not null default now()
);
