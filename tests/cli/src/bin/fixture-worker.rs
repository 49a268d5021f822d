//! A worker with jobs and a set-up.

background::worker!(fixture_app, setup = fixture_app::setup_worker);
