//! A worker whose set-up names one of the queues of its jobs, and so leaves out the other.

jobs::worker!(fixture_app, setup = fixture_app::forgetful_setup);
