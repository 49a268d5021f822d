//! The bundled worker with the fixture's jobs.

diesel_jobs::worker!(worker_app);
