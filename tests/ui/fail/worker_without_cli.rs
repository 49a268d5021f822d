diesel_jobs::worker!();
