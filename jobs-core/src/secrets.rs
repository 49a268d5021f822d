//! Removes the values of secret arguments from what people read: from the arguments themselves, and from the errors of
//! handlers.

use std::collections::BTreeMap;

use serde_json::Value;
use serde_json::value::RawValue;

/// Stands for all arguments. No argument has this name.
pub(crate) const ALL: &[&str] = &["*"];

/// What stands in the place of a secret.
pub(crate) const REDACTED: &str = "[redacted]";

/// The arguments by name. Their values are not decoded, because a handler may ignore arguments that are JSON and fit no
/// type: a number beyond the largest, or half a surrogate.
type Fields<'a> = BTreeMap<String, &'a RawValue>;

fn is_secret(name: &str, secrets: &[&str]) -> bool {
    secrets == ALL || secrets.contains(&name)
}

/// Returns the stored arguments with the values of these arguments replaced. Arguments that are no JSON object are
/// replaced as a whole, because it is not known where the secret is.
pub fn redacted(args: &str, secrets: &[&str]) -> String {
    if secrets.is_empty() {
        return args.to_owned();
    }
    let whole = || format!("\"{REDACTED}\"");
    let Ok(mut fields) = serde_json::from_str::<Fields<'_>>(args) else { return whole() };
    let Ok(instead) = RawValue::from_string(whole()) else { return whole() };
    fields.iter_mut().filter(|(name, _)| is_secret(name, secrets)).for_each(|(_, value)| *value = &instead);
    serde_json::to_string(&fields).unwrap_or_else(|_| whole())
}

/// Returns the stored arguments with all values replaced, for kinds whose secret arguments are not known.
pub fn all_redacted(args: &str) -> String {
    redacted(args, ALL)
}

/// Removes the values of these arguments from a text. An error of a handler may quote them. If a value cannot be read,
/// the whole text is replaced, because it is not known what to look for.
pub(crate) fn remove_from(text: &mut String, args: &[u8], secrets: &[&str]) {
    if secrets.is_empty() {
        return;
    }
    let Some(mut values) = secret_texts(args, secrets) else { return REDACTED.clone_into(text) };
    // A value may be a part of another one.
    values.sort_unstable_by_key(|value| std::cmp::Reverse(value.len()));
    for value in values.iter().filter(|value| !value.is_empty()) {
        if text.contains(value) {
            *text = text.replace(value, REDACTED);
        }
    }
}

/// The texts as which the values of these arguments may stand in a message. `None` if one cannot be read.
fn secret_texts(args: &[u8], secrets: &[&str]) -> Option<Vec<String>> {
    let fields: Fields<'_> = serde_json::from_slice(args).ok()?;
    let mut values = Vec::new();
    for (_, raw) in fields.iter().filter(|(name, _)| is_secret(name, secrets)) {
        let value: Value = serde_json::from_str(raw.get()).ok()?;
        collect(&value, &mut values);
        // A number may stand there as it was written.
        if value.is_number() {
            values.push(raw.get().to_owned());
        }
    }
    Some(values)
}

/// Collects the texts as which a value may stand in a message: a string as it is, as `Debug` prints it, and as JSON.
fn collect(value: &Value, into: &mut Vec<String>) {
    match value {
        Value::Null | Value::Bool(_) => {}
        Value::Number(number) => into.push(number.to_string()),
        Value::String(text) => {
            let json = value.to_string();
            into.extend([text.clone(), text.escape_debug().to_string(), json.trim_matches('"').to_owned()]);
        }
        Value::Array(values) => values.iter().for_each(|value| collect(value, into)),
        Value::Object(fields) => fields.values().for_each(|value| collect(value, into)),
    }
}

#[cfg(test)]
mod tests {
    use super::{all_redacted, redacted, remove_from};

    #[test]
    fn secret_arguments_are_replaced_and_the_others_stay() {
        let args = r#"{"user_id":7,"token":"hunter2","card":{"number":"4111"}}"#;
        assert_eq!(redacted(args, &["token", "card"]), r#"{"card":"[redacted]","token":"[redacted]","user_id":7}"#);
        assert_eq!(redacted(args, &[]), args);
        assert_eq!(all_redacted(r#"{"a":1,"b":{"c":2}}"#), r#"{"a":"[redacted]","b":"[redacted]"}"#);
        for not_an_object in ["[\"hunter2\"]", "\"hunter2\"", "{hunter2"] {
            assert_eq!(redacted(not_an_object, &["token"]), "\"[redacted]\"");
        }
    }

    #[test]
    fn an_error_that_quotes_a_secret_loses_it() {
        let args = br#"{"token":"a\"b\nc","card":{"number":"4111","cvc":[123]},"user_id":7,"empty":"","all":"hunter2hunter2","part":"hunter2"}"#;
        let secrets = ["token", "card", "empty", "all", "part", "absent"];
        for (text, expected) in [
            ("refused a\"b\nc for 7", "refused [redacted] for 7"),
            ("refused \"a\\\"b\\nc\"", "refused \"[redacted]\""),
            ("card 4111 (123) of user 7", "card [redacted] ([redacted]) of user 7"),
            ("hunter2hunter2 and hunter2", "[redacted] and [redacted]"),
            ("no secret", "no secret"),
        ] {
            let mut text = text.to_owned();
            remove_from(&mut text, args, &secrets);
            assert_eq!(text, expected);
        }
    }

    /// A handler may ignore an argument that no type can hold, so the others are read nevertheless.
    #[test]
    fn what_no_type_can_hold_hides_no_secret() {
        for other in ["1e400", r#""\ud800""#, "123456789012345678901234567890"] {
            let args = format!(r#"{{"n":{other},"token":"hunter2"}}"#);
            assert_eq!(redacted(&args, &["token"]), format!(r#"{{"n":{other},"token":"[redacted]"}}"#));
            let mut text = "hunter2 is wrong".to_owned();
            remove_from(&mut text, args.as_bytes(), &["token"]);
            assert_eq!(text, "[redacted] is wrong");
        }
        for unreadable in [r#"{"token":"\ud800hunter2"}"#, r#"["hunter2"]"#, "{hunter2"] {
            let mut text = "hunter2 is wrong".to_owned();
            remove_from(&mut text, unreadable.as_bytes(), &["token"]);
            assert_eq!(text, "[redacted]");
            remove_from(&mut text, unreadable.as_bytes(), &[]);
            assert!(!redacted(unreadable, &["token"]).contains("hunter2"));
        }
    }
}
