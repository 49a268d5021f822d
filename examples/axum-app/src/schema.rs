// @generated automatically by Diesel CLI.

diesel::table! {
    customers (id) {
        id -> Int8,
        email -> Text,
        credit_cents -> Int8,
    }
}

diesel::table! {
    ledger (id) {
        id -> Int8,
        order_id -> Int8,
        cents -> Int8,
        booked_at -> Timestamptz,
    }
}

diesel::table! {
    mails (idempotency_key) {
        idempotency_key -> Text,
        order_id -> Int8,
        address -> Text,
        template -> Text,
        submissions -> Int4,
        accepted_at -> Timestamptz,
    }
}

diesel::table! {
    order_jobs (job_id) {
        job_id -> Int8,
        order_id -> Int8,
    }
}

diesel::table! {
    orders (id) {
        id -> Int8,
        customer_id -> Int8,
        item -> Text,
        cents -> Int8,
        placed_at -> Timestamptz,
        charged_at -> Nullable<Timestamptz>,
    }
}

diesel::table! {
    reports (day) {
        day -> Date,
        orders -> Int8,
        cents -> Int8,
    }
}

diesel::joinable!(ledger -> orders (order_id));
diesel::joinable!(order_jobs -> orders (order_id));
diesel::joinable!(orders -> customers (customer_id));

diesel::allow_tables_to_appear_in_same_query!(customers, ledger, mails, order_jobs, orders, reports,);
