//! Removes the values of secret arguments from what people read: from the arguments themselves, and from the errors of
//! handlers.

use serde_json::Value;

/// Stands for all arguments. No argument has this name.
pub(crate) const ALL: &[&str] = &["*"];

/// What stands in the place of a secret.
pub(crate) const REDACTED: &str = "[redacted]";

/// Returns the stored arguments with the values of these arguments replaced. Arguments that are no JSON object are
/// replaced as a whole, because it is not known where the secret is.
pub fn redacted(args: &str, secrets: &[&str]) -> String {
    if secrets.is_empty() {
        return args.to_owned();
    }
    let Ok(Value::Object(mut fields)) = serde_json::from_str(args) else { return format!("\"{REDACTED}\"") };
    for (name, value) in &mut fields {
        if secrets == ALL || secrets.contains(&name.as_str()) {
            *value = Value::String(REDACTED.to_owned());
        }
    }
    Value::Object(fields).to_string()
}

/// Returns the stored arguments with all values replaced, for kinds whose secret arguments are not known.
pub fn all_redacted(args: &str) -> String {
    redacted(args, ALL)
}

/// Removes the values of these arguments from a text. An error of a handler may quote them.
pub(crate) fn remove_from(text: &mut String, args: &[u8], secrets: &[&str]) {
    let Ok(Value::Object(fields)) = serde_json::from_slice(args) else { return };
    let mut values = Vec::new();
    for (name, value) in &fields {
        if secrets == ALL || secrets.contains(&name.as_str()) {
            collect(value, &mut values);
        }
    }
    // A value may be a part of another one.
    values.sort_unstable_by_key(|value| std::cmp::Reverse(value.len()));
    for value in values.iter().filter(|value| !value.is_empty()) {
        if text.contains(value) {
            *text = text.replace(value, REDACTED);
        }
    }
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
}
