//! A worker whose set-up fails.

background::worker!(setup = fixture_app::broken_setup);
