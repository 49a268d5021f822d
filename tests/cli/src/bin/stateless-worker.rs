//! A worker whose jobs take a state that its set-up does not provide.

jobs::worker!(fixture_app);
