//! The output of a job: what its handler returned, as JSON text.

use std::fmt;
use std::io::{self, Write};
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::finite::refuse_lost;
use crate::json_depth::{MAX_DEPTH, is_too_deep};

/// The largest output that is stored, in bytes of JSON.
const MAX_OUTPUT_BYTES: usize = 256 * 1024;

/// What a handler returned, as JSON. If it cannot be stored, a note with the reason is stored instead.
///
/// ```
/// use diesel_jobs_core::Output;
///
/// let output = Output::new(&vec![1, 2]);
/// assert_eq!(output.json(), Some("[1,2]"));
/// assert_eq!(output.read::<Vec<u8>>().unwrap(), Some(vec![1, 2]));
///
/// let large = Output::new(&"x".repeat(300_000));
/// assert_eq!(large.json(), None);
/// assert_eq!(large.note(), Some("the output takes 300002 bytes of JSON, at most 262144 are stored"));
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Output(Stored);

#[derive(Clone, PartialEq, Eq)]
enum Stored {
    Json(Arc<str>),
    Refused(Arc<str>),
}

impl Output {
    /// The output with this value. If the value cannot be stored, the output is a note that says why.
    pub fn new<T: Serialize + ?Sized>(value: &T) -> Self {
        match encoded(value) {
            Ok(json) => Self::of_json(json),
            Err(note) => Self::refused(note),
        }
    }

    /// An output that is JSON already, as a storage has stored it.
    pub fn of_json(json: impl Into<Arc<str>>) -> Self {
        Self(Stored::Json(json.into()))
    }

    /// A note in the place of an output that was refused.
    pub fn refused(note: impl Into<Arc<str>>) -> Self {
        Self(Stored::Refused(note.into()))
    }

    /// The JSON. `None` if the output was refused.
    pub fn json(&self) -> Option<&str> {
        match &self.0 {
            Stored::Json(json) => Some(json),
            Stored::Refused(_) => None,
        }
    }

    /// Why the output was refused. `None` if it was not.
    pub fn note(&self) -> Option<&str> {
        match &self.0 {
            Stored::Json(_) => None,
            Stored::Refused(note) => Some(note),
        }
    }

    /// Reads the output. `None` if it was refused.
    pub fn read<T: DeserializeOwned>(&self) -> Result<Option<T>, serde_json::Error> {
        self.json().map(serde_json::from_str).transpose()
    }

    /// Whether the value was `()`, `None` or another value whose JSON is `null`. Such a job has no output.
    pub(crate) fn is_null(&self) -> bool {
        self.json() == Some("null")
    }
}

impl fmt::Debug for Output {
    // Logs print it. The value may be personal data, so it is not printed.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Stored::Json(json) => write!(f, "Output({} bytes)", json.len()),
            Stored::Refused(note) => write!(f, "Output(refused: {note})"),
        }
    }
}

/// The value as JSON, or why it cannot be stored.
fn encoded<T: Serialize + ?Sized>(value: &T) -> Result<String, String> {
    let mut text = Text::default();
    serde_json::to_writer(&mut text, value).map_err(|error| format!("the output is no valid JSON: {error}"))?;
    if text.length > MAX_OUTPUT_BYTES {
        return Err(format!("the output takes {} bytes of JSON, at most {MAX_OUTPUT_BYTES} are stored", text.length));
    }
    if is_too_deep(&text.bytes) {
        return Err(format!("the output is nested more than {MAX_DEPTH} levels deep"));
    }
    let text = String::from_utf8(text.bytes).map_err(|error| format!("the output is no valid JSON: {error}"))?;
    refuse_lost(value, &text).map_err(|error| format!("the output is no valid JSON: {error}"))?;
    Ok(text)
}

/// Counts all bytes, and keeps only as many as may be stored.
#[derive(Default)]
struct Text {
    bytes: Vec<u8>,
    length: usize,
}

impl Write for Text {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.length = self.length.saturating_add(bytes.len());
        if self.length <= MAX_OUTPUT_BYTES {
            self.bytes.extend_from_slice(bytes);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[test]
    fn an_output_is_stored_up_to_its_largest_size() {
        let fits = "x".repeat(MAX_OUTPUT_BYTES - 2);
        assert_eq!(Output::new(&fits).json().map(str::len), Some(MAX_OUTPUT_BYTES));
        let larger = Output::new(&format!("{fits}x"));
        assert_eq!(larger.note(), Some("the output takes 262145 bytes of JSON, at most 262144 are stored"));
        assert_eq!(larger.read::<String>().unwrap(), None);
    }

    #[test]
    fn output_that_could_not_be_decoded_is_refused() {
        let mut nested = serde_json::json!("[[[\"");
        for _ in 0..MAX_DEPTH {
            nested = serde_json::json!([nested]);
        }
        let deep = Output::new(&nested);
        assert_eq!(deep.read::<serde_json::Value>().unwrap(), Some(nested.clone()));
        assert_eq!(Output::new(&[nested]).note(), Some("the output is nested more than 127 levels deep"));
        let no_json = Output::new(&HashMap::from([((1, 2), 3)]));
        assert_eq!(no_json.note(), Some("the output is no valid JSON: key must be a string"));
        let no_number = Output::new(&[Some(f64::NAN)]);
        assert_eq!(no_number.note(), Some("the output is no valid JSON: JSON cannot express NaN"));
    }

    #[test]
    fn debug_prints_no_value() {
        assert_eq!(format!("{:?}", Output::new("hunter2")), "Output(9 bytes)");
    }
}
