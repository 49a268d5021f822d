//! The bundled worker with the desk's jobs.

diesel_jobs::worker!(actix_app);
