//! Holds the tests in `suite`.
