//! Reads a few values of a JSON object by their names, and passes over the others.

use std::fmt;

use serde::Deserializer;
use serde::de::{DeserializeSeed, Error, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;

use crate::limit::LimitProblem;

/// The values of these arguments, in the order of the names.
pub(crate) fn named_values(args: &str, names: &[&str]) -> Result<Vec<Value>, LimitProblem> {
    let mut json = serde_json::Deserializer::from_str(args);
    let found = json.deserialize_map(Values(names)).map_err(|_| LimitProblem::NoObject)?;
    json.end().map_err(|_| LimitProblem::NoObject)?;
    // A name that is given twice is found at its first place.
    let value = |name: &&str| {
        let first = names.iter().position(|other| other == name);
        first.and_then(|place| found[place].clone()).ok_or_else(|| LimitProblem::Missing((*name).to_owned()))
    };
    names.iter().map(value).collect()
}

struct Values<'a>(&'a [&'a str]);

impl<'de> Visitor<'de> for Values<'_> {
    type Value = Vec<Option<Value>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut found = vec![None; self.0.len()];
        while let Some(place) = map.next_key_seed(Place(self.0))? {
            match place {
                Some(place) => found[place] = Some(map.next_value()?),
                None => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(found)
    }
}

/// Which of the names a field of the object has.
struct Place<'a>(&'a [&'a str]);

impl<'de> DeserializeSeed<'de> for Place<'_> {
    type Value = Option<usize>;

    fn deserialize<D: Deserializer<'de>>(self, name: D) -> Result<Self::Value, D::Error> {
        name.deserialize_str(self)
    }
}

impl Visitor<'_> for Place<'_> {
    type Value = Option<usize>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Self::Value, E> {
        Ok(self.0.iter().position(|wanted| *wanted == name))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_values_come_in_the_order_of_the_names() {
        let args = r#"{"a": [1, {"b": 2}], "b": 7, "c\u0064": "x", "b": 8}"#;
        assert_eq!(named_values(args, &["cd", "b", "cd"]), Ok(vec![json!("x"), json!(8), json!("x")]));
        assert_eq!(named_values(args, &["b", "e"]), Err(LimitProblem::Missing("e".to_owned())));
        for no_object in ["[1]", "7", "{} {}", r#"{"b": 1"#, ""] {
            assert_eq!(named_values(no_object, &["b"]), Err(LimitProblem::NoObject), "{no_object}");
        }
    }
}
