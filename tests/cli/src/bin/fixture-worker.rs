//! A worker with jobs and a set-up.

jobs::worker!(fixture_app, setup = fixture_app::setup_worker);
