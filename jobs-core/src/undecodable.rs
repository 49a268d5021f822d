//! Decodes arguments, and has the error text for those that cannot be decoded. The text contains the name of the
//! argument and what was expected, but not the stored value. Arguments must not get into logs or error tables, and
//! serde's messages contain values.

use serde::de::{DeserializeOwned, Deserializer, Error as _, Visitor, value};

use crate::context::JobContext;
use crate::error::{FailureKind, JobError};
use crate::job_id::JobId;

impl JobContext {
    #[doc(hidden)]
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T, JobError> {
        serde_json::from_slice(&self.claimed().args).map_err(|error| {
            let mismatch = mismatch::<T>(&self.claimed().args, &error);
            let unfit = Unfit { kind: self.kind().to_owned(), job: self.id(), mismatch, names: fields::<T>() };
            JobError::of_kind(FailureKind::Undecodable, anyhow::Error::new(unfit))
        })
    }
}

/// Stored arguments that cannot be decoded.
#[derive(Debug, thiserror::Error)]
#[error(
    "the stored arguments of job kind `{kind}` do not fit: {mismatch}; if one was renamed, accept its old name too \
     (`#[derive(Job)]` with `#[serde(alias = ..)]`), then `worker retry {job}`"
)]
pub(crate) struct Unfit {
    kind: String,
    job: JobId,
    /// What does not fit, without the stored value.
    pub(crate) mismatch: String,
    /// The names of the arguments, unless the kind may read others as well.
    pub(crate) names: Option<&'static [&'static str]>,
}

/// Returns the error text for the arguments `args`, which cannot be decoded as a `T`.
fn mismatch<T: DeserializeOwned>(args: &[u8], error: &serde_json::Error) -> String {
    let text = without_values(error);
    match argument_at(args, error).filter(|key| fields::<T>().is_some_and(|names| names.contains(&key.as_str()))) {
        Some(name) => format!("`{name}`: {text}"),
        None => text,
    }
}

/// Returns the message of the error without the stored value. In serde's own messages the place of the value is known.
/// In the message of another implementation the value may be anywhere, so that message is replaced.
fn without_values(error: &serde_json::Error) -> String {
    const SERDE_MESSAGES: [&str; 5] =
        ["invalid type: ", "invalid value: ", "invalid length ", "unknown variant ", "unknown field "];
    let text = error.to_string();
    let place = format!("at line {} column {}", error.line(), error.column());
    let is_serdes = SERDE_MESSAGES.iter().any(|start| text.starts_with(start));
    match text.rfind(", expected ").filter(|_| is_serdes) {
        Some(at) => text[at + 2..].to_owned(),
        None if text.starts_with("missing field") || text.starts_with("duplicate field") => text,
        None if error.is_data() => format!("unexpected value {place}"),
        None => format!("not valid JSON {place}"),
    }
}

/// Returns the key in the outermost object whose value contains the error. The key may be data, for example in a map.
/// So it is only compared and not shown.
fn argument_at(args: &[u8], error: &serde_json::Error) -> Option<String> {
    if !error.is_data() || error.line() == 0 {
        return None;
    }
    let before: usize = args.split_inclusive(|byte| *byte == b'\n').take(error.line() - 1).map(<[u8]>::len).sum();
    let read = args.get(..before + error.column()).unwrap_or(args);
    let (mut depth, mut key, mut string, mut quote) = (0, None, &[][..], None);
    let mut bytes = read.iter().enumerate();
    while let Some((at, byte)) = bytes.next() {
        match (byte, quote) {
            (b'\\', Some(_)) => drop(bytes.next()),
            (b'"', Some(start)) => (string, quote) = (&read[start..at], None),
            (_, Some(_)) => {}
            (b'"', None) => quote = Some(at + 1),
            (b'{' | b'[', None) => depth += 1,
            (b'}' | b']', None) => depth -= 1,
            (b':', None) if depth == 1 => key = Some(string),
            _ => {}
        }
    }
    // An error at the end of the object belongs to the whole object.
    key.filter(|_| depth > 0).map(|key| String::from_utf8_lossy(key).into_owned())
}

/// Returns the names under which a struct reads its fields, with those of `#[serde(alias)]`. They come from the program
/// and are no stored data. A struct with `#[serde(flatten)]`, a map and an enum do not say which names they read.
fn fields<T: DeserializeOwned>() -> Option<&'static [&'static str]> {
    let mut fields = None;
    // This always returns an error. It only records the names of the fields.
    let _ = T::deserialize(FieldNames(&mut fields));
    fields
}

struct FieldNames<'a>(&'a mut Option<&'static [&'static str]>);

impl<'de> Deserializer<'de> for FieldNames<'_> {
    type Error = value::Error;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Self::Error> {
        Err(value::Error::custom("no value"))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Self::Error> {
        *self.0 = Some(fields);
        self.deserialize_any(visitor)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Self::Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Self::Error> {
        visitor.visit_some(self)
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map enum identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use serde::Deserialize;

    use super::*;
    use crate::argument::NoArguments;

    #[derive(Debug, Deserialize)]
    #[expect(dead_code, reason = "only decoded")]
    struct Charge {
        card: String,
        cents: i64,
        #[serde(default)]
        address: Option<Address>,
    }

    #[derive(Debug, Deserialize)]
    #[expect(dead_code, reason = "only decoded")]
    struct Address {
        street: Vec<String>,
    }

    fn said<T: DeserializeOwned + std::fmt::Debug>(args: &str) -> String {
        mismatch::<T>(args.as_bytes(), &serde_json::from_str::<T>(args).unwrap_err())
    }

    #[test]
    fn the_argument_and_what_was_expected_are_named() {
        for (args, expected) in [
            (r#"{"card": 4111222233334444, "cents": 5}"#, "`card`: expected a string"),
            (r#"{"cents": "secret", "card": "x"}"#, "`cents`: expected i64"),
            (r#"{"card": "a\"b:{", "cents": 5.5}"#, "`cents`: expected i64"),
            (r#"{"card": "x", "cents": null}"#, "`cents`: expected i64"),
            ("{\"card\":\n\"x\",\n\n\"cents\": [\"secret\"]}", "`cents`: expected i64"),
            (r#"{"card": "x", "cents": 1, "address": {"street": ["secret", 7]}}"#, "`address`: expected a string"),
            (r#"{"card": "secret"}"#, "missing field `cents`"),
            (r#"["secret", "x"]"#, "expected i64"),
            (r#""secret""#, "expected struct Charge"),
            ("{secret", "not valid JSON"),
        ] {
            let text = said::<Charge>(args);
            assert!(text.starts_with(expected), "{args}: {text}");
            assert!(!text.contains("secret") && !text.contains("4111"), "{args}: {text}");
        }
    }

    #[test]
    fn a_struct_says_which_names_it_reads_and_other_types_do_not() {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        #[expect(dead_code, reason = "only its names are read")]
        struct Names {
            #[serde(alias = "id")]
            user_id: i64,
            #[serde(rename = "type")]
            sort: String,
            #[serde(skip)]
            cache: i64,
        }
        #[derive(Deserialize)]
        struct Newtype(#[expect(dead_code, reason = "only its names are read")] Names);
        #[derive(Deserialize)]
        #[expect(dead_code, reason = "only its names are read")]
        struct Flat {
            id: i64,
            #[serde(flatten)]
            others: HashMap<String, i64>,
        }
        #[derive(Deserialize)]
        #[serde(tag = "type")]
        #[expect(dead_code, reason = "only its names are read")]
        enum Tagged {
            One { id: i64 },
        }
        let sorted = |names: Option<&'static [&'static str]>| {
            let mut names = names.unwrap().to_vec();
            names.sort_unstable();
            names
        };
        assert_eq!(sorted(fields::<Names>()), ["id", "type", "userId"]);
        assert_eq!(sorted(fields::<Newtype>()), ["id", "type", "userId"]);
        assert_eq!(fields::<NoArguments>(), Some(&[][..]));
        for unknown in [fields::<Flat>(), fields::<Tagged>(), fields::<HashMap<String, i64>>(), fields::<Vec<i64>>()] {
            assert_eq!(unknown, None);
        }
    }

    #[test]
    fn keys_that_are_data_are_not_shown() {
        let text = said::<HashMap<String, i64>>(r#"{"secret": "secret"}"#);
        assert!(text.starts_with("expected i64"), "{text}");
    }
}
