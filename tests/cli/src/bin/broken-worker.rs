//! A worker whose set-up fails.

jobs::worker!(setup = fixture_app::broken_setup);
