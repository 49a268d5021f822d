//! Why JSON makes no key.

use crate::json_depth::MAX_DEPTH;

/// Why no key can be made of the arguments of a job.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyProblem {
    /// The arguments have no names.
    #[error("`by` names arguments, but the arguments are not stored as a JSON object")]
    NoObject,
    /// There is no such argument.
    #[error(
        "`by` names the argument `{0}`, which the stored arguments do not have; a field that serde renames or leaves out cannot be a key"
    )]
    Missing(String),
    /// The arguments are no JSON.
    #[error("its arguments are not JSON, so they have no key")]
    NoJson,
    /// A text of the key has a NUL character.
    #[error("its key has a text with a NUL character (\\u0000), which databases do not store")]
    Nul,
    /// A number of the key is too long.
    #[error(
        "its key has a number with more than 1000 digits or an exponent beyond 1000; pass it as a text, or choose other arguments"
    )]
    LargeNumber,
    /// The arguments contain an escape that is no character.
    #[error("its arguments have an escape that is no character, such as half of a surrogate pair, so they have no key")]
    Escape,
    /// The key is nested too deep.
    #[error("its key is nested more than {MAX_DEPTH} levels deep")]
    Deep,
}
