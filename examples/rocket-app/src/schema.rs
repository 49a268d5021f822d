// @generated automatically by Diesel CLI.

diesel::table! {
    books (id) {
        id -> Int8,
        title -> Text,
    }
}

diesel::table! {
    letters (id) {
        id -> Int8,
        loan_id -> Int8,
        kind -> Text,
        written_at -> Timestamptz,
    }
}

diesel::table! {
    loans (id) {
        id -> Int8,
        book_id -> Int8,
        reader -> Text,
        due_at -> Timestamptz,
        returned_at -> Nullable<Timestamptz>,
    }
}

diesel::joinable!(letters -> loans (loan_id));
diesel::joinable!(loans -> books (book_id));

diesel::allow_tables_to_appear_in_same_query!(books, letters, loans,);
