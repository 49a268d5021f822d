//! Keys of limits, sequences and unique jobs, as people read and write them. A stored key is a list of values as JSON,
//! or their hash.

use crate::canonical::{canonical, items};

/// The key of jobs that all count together.
const ALL: &str = "[]";

/// A key for people: as it is stored, such as `[7]`, or `all jobs`.
pub fn key_text(stored: &str) -> String {
    if stored == ALL { "all jobs".to_owned() } else { stored.to_owned() }
}

/// The same in a sentence: `key [7]`, or `all jobs`.
pub fn keyed(stored: &str) -> String {
    if stored == ALL { "all jobs".to_owned() } else { format!("key {stored}") }
}

/// Whether this text means the stored key. The text may be the stored key, its form as [`key_text`] prints it, or its
/// values with commas between them, such as `7` or `ada, 7`.
pub fn is_key(stored: &str, written: &str) -> bool {
    let written = written.trim();
    if written == stored || written == key_text(stored) {
        return true;
    }
    let Ok(values) = items(stored) else { return false };
    if canonical(written).is_ok_and(|written| written == stored) {
        return true;
    }
    // A text is written without its quotes.
    let text = |value: &String| serde_json::from_str(value).unwrap_or_else(|_| value.clone());
    match values.as_slice() {
        [] => false,
        [one] => text(one) == written,
        several => several.iter().map(text).eq(written.split(',').map(|part| part.trim().to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_shown_as_it_is_stored_and_that_of_all_jobs_in_words() {
        assert_eq!((key_text("[7]"), keyed("[7]")), ("[7]".to_owned(), "key [7]".to_owned()));
        assert_eq!((key_text("[]"), keyed("[]")), ("all jobs".to_owned(), "all jobs".to_owned()));
        assert_eq!(keyed("sha256:ab"), "key sha256:ab");
    }

    #[test]
    fn a_key_may_be_written_as_it_is_stored_or_as_its_values() {
        for (stored, written) in [
            ("[7]", "[7]"),
            ("[7]", " [ 7 ] "),
            ("[7]", "7"),
            (r#"["7"]"#, "7"),
            (r#"["ada, eu"]"#, "ada, eu"),
            (r#"["ada",7,null]"#, "ada, 7, null"),
            (r#"["ada",7]"#, "ada,7"),
            ("[]", "[]"),
            ("[]", "all jobs"),
            ("sha256:ab", "sha256:ab"),
            ("[1.5]", "[1.50]"),
            (r#"[{"a":1,"b":[]}]"#, r#"[ {"b": [], "a": 1.0} ]"#),
            ("[18446744073709551616]", "18446744073709551616"),
        ] {
            assert!(is_key(stored, written), "{stored} {written}");
        }
        for (stored, written) in [
            ("[7]", "8"),
            ("[7]", "[\"7\"]"),
            ("[7,8]", "7"),
            ("[]", ""),
            ("sha256:ab", "ab"),
            ("[18446744073709551616]", "[18446744073709551617]"),
        ] {
            assert!(!is_key(stored, written), "{stored} {written}");
        }
    }
}
