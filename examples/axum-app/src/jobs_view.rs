//! The view of all jobs, for joins with the shop's tables. `schema.rs` contains only the shop's own tables, as Diesel
//! generates it.

use crate::schema::order_jobs;

diesel_jobs::rows::job_view!(postgres);

diesel::joinable!(order_jobs -> job (job_id));
diesel::allow_tables_to_appear_in_same_query!(order_jobs, job);
