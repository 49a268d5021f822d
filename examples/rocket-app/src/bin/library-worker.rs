//! The bundled worker with the library's jobs.

diesel_jobs::worker!(rocket_app);
