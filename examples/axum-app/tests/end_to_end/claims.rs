//! What must hold, as queries that count the exceptions.

/// What must hold at the end, and a query that counts the exceptions.
pub(super) const AT_THE_END: &[(&str, &str)] = &[
    (
        "each order is in the ledger exactly once, with its price",
        "select count(*) from orders o
         where (select count(*) from ledger l where l.order_id = o.id) <> 1
            or (select sum(l.cents) from ledger l where l.order_id = o.id) <> o.cents",
    ),
    ("each order is marked as charged", "select count(*) from orders where charged_at is null"),
    (
        "each order has one confirmation and one request for a review, each known by one key",
        "select count(*) from orders o, (values ('confirmation'), ('review')) t (template)
         where (select count(*) from mails m where m.order_id = o.id and m.template = t.template) <> 1",
    ),
    (
        "each mail went to the customer of its order, and there is none without an order",
        "select count(*) from mails m
         where not exists (
             select from orders o join customers c on c.id = o.customer_id where o.id = m.order_id and c.email = m.address)",
    ),
    ("nothing happened to the customer who was refused", "select count(*) from mails where address = 'poor@example.org'"),
    (
        "no job is left over, cancelled or discarded",
        "select count(*) from jobs.job where state <> 'completed'",
    ),
    (
        "each order has its three jobs, and there is no other",
        "select abs(count(*) - 3 * (select count(*) from orders)) + count(*) filter (where kind not in ('charge', 'send_mail'))
         from jobs.job where kind <> 'nightly_report'",
    ),
    (
        "only a worker's death cost an attempt: the one that was asked to stop gave back what it held",
        "select count(*) from jobs.job where attempt <> 1 + crashes",
    ),
    (
        "each customer's credit went down by the orders that were placed",
        "select count(*) from customers c
         where c.credit_cents + (select coalesce(sum(o.cents), 0) from orders o where o.customer_id = c.id)
            <> case when c.email = 'poor@example.org' then 10 else 100000000 end",
    ),
];

/// Counts charges in the ledger whose job is not completed. There must never be one, because both are committed
/// together.
pub(super) const NEVER: &str = "
    select count(*) from jobs.job j join ledger l on l.order_id = (j.args->>'order_id')::bigint
    where j.kind = 'charge' and j.state <> 'completed'";
