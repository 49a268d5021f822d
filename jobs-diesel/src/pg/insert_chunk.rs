//! The statement for a chunk of jobs: the cheapest that can insert them. Sync and async connections have two traits
//! with the same functions, so it is a macro, which uses the trait `RunQueryDsl` at its place. `[.await]` is for async
//! ones.

/// Returns the answers, in the order of the chunk.
macro_rules! insert_chunk {
    ($conn:ident, $chunk:ident, [$($wait:tt)*]) => {{
        use $crate::pg::enqueue_connection::inserted;
        use $crate::pg::queries::enqueue_many::EnqueueManyQuery;
        use $crate::pg::queries::enqueue_alike::EnqueueAlikeQuery;
        use $crate::pg::queries::enqueue_held::{self, EnqueueHeldOneQuery, EnqueueHeldQuery};
        use $crate::pg::queries::enqueue_held_alike::EnqueueHeldAlikeQuery;
        use $crate::pg::queries::enqueue_unique::{self, EnqueueUniqueQuery};
        use $crate::pg::queries::enqueue_unique_alike::{self, EnqueueUniqueAlikeQuery};
        use $crate::pg::queries::enqueue_unique_one::{EnqueueUniqueFreeQuery, EnqueueUniqueOneQuery};

        if let Some(unique) = EnqueueUniqueFreeQuery::new($chunk) {
            enqueue_unique::answers($chunk, RunQueryDsl::load(unique, $conn)$($wait)*?)?
        } else if let Some(unique) = EnqueueUniqueOneQuery::new($chunk) {
            enqueue_unique::answers($chunk, RunQueryDsl::load(unique, $conn)$($wait)*?)?
        } else if let Some(unique) = EnqueueUniqueAlikeQuery::new($chunk) {
            enqueue_unique_alike::answers($chunk, RunQueryDsl::get_result(unique, $conn)$($wait)*?)?
        } else if let Some(unique) = EnqueueUniqueQuery::new($chunk) {
            enqueue_unique::answers($chunk, RunQueryDsl::load(unique, $conn)$($wait)*?)?
        } else if let Some(held) = EnqueueHeldOneQuery::new($chunk) {
            let rows: Vec<(i64, bool)> = RunQueryDsl::load(held, $conn)$($wait)*?;
            rows.into_iter().map(|(id, _)| inserted(id)).collect()
        } else if let Some(held) = EnqueueHeldAlikeQuery::new($chunk) {
            let rows: Vec<i64> = RunQueryDsl::load(held, $conn)$($wait)*?;
            rows.into_iter().map(inserted).collect()
        } else if let Some(held) = EnqueueHeldQuery::new($chunk) {
            let rows: Vec<(bool, i64)> = RunQueryDsl::load(held, $conn)$($wait)*?;
            enqueue_held::in_order($chunk, rows).into_iter().map(inserted).collect()
        } else if let Some(alike) = EnqueueAlikeQuery::new($chunk) {
            let rows: Vec<i64> = RunQueryDsl::load(alike, $conn)$($wait)*?;
            rows.into_iter().map(inserted).collect()
        } else {
            let rows: Vec<i64> = RunQueryDsl::load(EnqueueManyQuery::new($chunk), $conn)$($wait)*?;
            rows.into_iter().map(inserted).collect()
        }
    }};
}

pub(super) use insert_chunk;
