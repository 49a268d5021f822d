-- What the shop knows: who may buy for how much, what was ordered, what was charged, and each day's sum.
-- Locks: creates objects only.

create table customers (
    id bigint primary key generated always as identity,
    email text not null unique,
    credit_cents bigint not null check (credit_cents >= 0)
);

create table orders (
    id bigint primary key generated always as identity,
    customer_id bigint not null references customers,
    item text not null,
    cents bigint not null check (cents > 0),
    placed_at timestamptz not null default now(),
    charged_at timestamptz
);

create index orders_placed_at on orders (placed_at);

-- No unique key on order_id, on purpose: one row per order is what the transactional job `charge` promises, and the
-- end-to-end test counts them.
create table ledger (
    id bigint primary key generated always as identity,
    order_id bigint not null references orders,
    cents bigint not null,
    booked_at timestamptz not null default now()
);

create index ledger_order_id on ledger (order_id);

create table reports (
    day date primary key,
    orders bigint not null,
    cents bigint not null
);
