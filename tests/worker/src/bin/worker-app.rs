//! The bundled worker with the fixture's jobs.

jobs::worker!(worker_app);
