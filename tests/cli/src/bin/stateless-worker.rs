//! A worker whose jobs take a state that its set-up does not provide.

background::worker!(fixture_app);
