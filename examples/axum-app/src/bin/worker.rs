//! The bundled worker with the shop's jobs.

diesel_jobs::worker!(axum_app, setup = axum_app::setup_worker);
