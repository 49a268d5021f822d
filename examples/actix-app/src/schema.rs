// @generated automatically by Diesel CLI.

diesel::table! {
    agents (id) {
        id -> Int8,
        name -> Text,
        assigned -> Int8,
    }
}

diesel::table! {
    tickets (id) {
        id -> Int8,
        email -> Text,
        subject -> Text,
        agent_id -> Nullable<Int8>,
        opened_at -> Timestamptz,
        closed_at -> Nullable<Timestamptz>,
    }
}

diesel::joinable!(tickets -> agents (agent_id));

diesel::allow_tables_to_appear_in_same_query!(agents, tickets,);
