//! A worker whose jobs want a state that nobody gives them.

background::worker!(fixture_app);
