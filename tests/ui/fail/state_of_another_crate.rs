use diesel_jobs::job;

/// The names of axum's extractors.
mod axum {
    pub struct State<T>(pub T);
    pub struct Extension<T>(pub T);
    pub struct Json<T>(pub T);
    pub struct Path<T>(pub T);
}

use axum::{Extension, Json, Path, State};

#[derive(Clone)]
struct Pool;

#[job]
async fn with_state(State(pool): State<Pool>) {
    let _ = pool;
}

#[job]
fn state_by_name(id: i64, pool: axum::State<Pool>, conn: &mut diesel::SqliteConnection) {
    let _ = (id, pool, conn);
}

#[job]
async fn with_extension(Extension(pool): Extension<Pool>) {
    let _ = pool;
}

#[job]
async fn with_json(Json(name): Json<String>) {
    let _ = name;
}

#[job]
fn with_path(axum::Path(id): Path<i64>) {
    let _ = id;
}

#[job]
async fn extension_by_name(pool: Extension<Pool>) {
    let _ = pool;
}

fn main() {}
