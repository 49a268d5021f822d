//! The statement for a chunk of jobs: the cheapest that can insert them. Sync and async connections have two traits
//! with the same functions, so it is a macro, which uses the trait `RunQueryDsl` at its place. `[.await]` is for async
//! ones.

/// Returns the answers, in the order of the chunk.
macro_rules! insert_chunk {
    ($conn:ident, $chunk:ident, [$($wait:tt)*]) => {{
        use $crate::pg::enqueue_connection::inserted;
        use $crate::pg::queries::enqueue_many::EnqueueManyQuery;
        use $crate::pg::queries::enqueue_alike::EnqueueAlikeQuery;
        use $crate::pg::queries::hold::{self, HoldOneQuery, HoldQuery};
        use $crate::pg::queries::hold_alike::HoldAlikeQuery;
        use $crate::pg::queries::take::{self, TakeQuery};
        use $crate::pg::queries::take_alike::{self, TakeAlikeQuery};
        use $crate::pg::queries::take_one::{TakeFreeQuery, TakeOneQuery};

        if let Some(take) = TakeFreeQuery::new($chunk) {
            take::answers($chunk, RunQueryDsl::load(take, $conn)$($wait)*?)?
        } else if let Some(take) = TakeOneQuery::new($chunk) {
            take::answers($chunk, RunQueryDsl::load(take, $conn)$($wait)*?)?
        } else if let Some(take) = TakeAlikeQuery::new($chunk) {
            take_alike::answers($chunk, RunQueryDsl::get_result(take, $conn)$($wait)*?)?
        } else if let Some(take) = TakeQuery::new($chunk) {
            take::answers($chunk, RunQueryDsl::load(take, $conn)$($wait)*?)?
        } else if let Some(hold) = HoldOneQuery::new($chunk) {
            let rows: Vec<(i64, bool)> = RunQueryDsl::load(hold, $conn)$($wait)*?;
            rows.into_iter().map(|(id, _)| inserted(id)).collect()
        } else if let Some(hold) = HoldAlikeQuery::new($chunk) {
            let rows: Vec<i64> = RunQueryDsl::load(hold, $conn)$($wait)*?;
            rows.into_iter().map(inserted).collect()
        } else if let Some(hold) = HoldQuery::new($chunk) {
            let rows: Vec<(bool, i64)> = RunQueryDsl::load(hold, $conn)$($wait)*?;
            hold::in_order($chunk, rows).into_iter().map(inserted).collect()
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
