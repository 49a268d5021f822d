//! The bundled worker, whose commands are measured. It has no jobs.

diesel_jobs::worker!();
