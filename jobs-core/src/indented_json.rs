//! JSON for people, one value on each line. It is made of the text that is stored: a parser would round large numbers,
//! and drop repeated names.

use crate::json_depth::is_too_deep;

/// The same JSON with line breaks, indented by two spaces. A text that is no JSON, or that no worker could read, stays
/// as it is.
pub fn indented_json(json: &str) -> String {
    if is_too_deep(json.as_bytes()) || serde_json::from_str::<serde::de::IgnoredAny>(json).is_err() {
        return json.to_owned();
    }
    let mut text = String::with_capacity(2 * json.len());
    let mut depth = 0;
    let (mut in_string, mut is_escaped) = (false, false);
    let mut letters = json.trim().chars().peekable();
    while let Some(letter) = letters.next() {
        if in_string {
            text.push(letter);
            in_string = letter != '"' || is_escaped;
            is_escaped = letter == '\\' && !is_escaped;
            continue;
        }
        match letter {
            ' ' | '\t' | '\n' | '\r' => {}
            '[' | '{' => {
                text.push(letter);
                while letters.next_if(|letter| letter.is_ascii_whitespace()).is_some() {}
                if let Some(end) = letters.next_if(|letter| matches!(letter, ']' | '}')) {
                    text.push(end);
                } else {
                    depth += 1;
                    new_line(&mut text, depth);
                }
            }
            ']' | '}' => {
                depth -= 1;
                new_line(&mut text, depth);
                text.push(letter);
            }
            ',' => {
                text.push(letter);
                new_line(&mut text, depth);
            }
            ':' => text.push_str(": "),
            _ => {
                text.push(letter);
                in_string = letter == '"';
            }
        }
    }
    text
}

fn new_line(text: &mut String, depth: usize) {
    text.push('\n');
    text.extend(std::iter::repeat_n("  ", depth));
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::indented_json;

    #[test]
    fn it_is_laid_out_as_serde_does() {
        for value in [
            json!({}),
            json!([]),
            json!(null),
            json!("a \\ \" [{,:}] \u{e9}\n"),
            json!([[], {}, [1, -2.5, true], {"a": {"b": [{}]}, "c:d": "\\"}]),
        ] {
            let pretty = serde_json::to_string_pretty(&value).unwrap();
            assert_eq!(indented_json(&value.to_string()), pretty);
            assert_eq!(indented_json(&pretty), pretty);
        }
        assert_eq!(indented_json(" { \"a\" : [ ] ,\r\n\t\"b\":{\n} } "), "{\n  \"a\": [],\n  \"b\": {}\n}");
    }

    #[test]
    fn numbers_names_and_escapes_are_as_they_are_stored() {
        for number in [
            "18446744073709551617",
            "340282366920938463463374607431768211455",
            "-170141183460469231731687303715884105728",
            "1e400",
            "1.0",
            "-0",
            "0.1000000000000000055511151231257827",
        ] {
            assert_eq!(indented_json(&format!("{{\"n\":{number}}}")), format!("{{\n  \"n\": {number}\n}}"));
        }
        assert_eq!(indented_json(r#"{"b":1,"a":2,"b":3}"#), "{\n  \"b\": 1,\n  \"a\": 2,\n  \"b\": 3\n}");
        assert_eq!(indented_json(r#"["\u0000\\"]"#), "[\n  \"\\u0000\\\\\"\n]");
    }

    #[test]
    fn what_is_no_json_or_nested_too_deeply_stays_as_it_is() {
        let deep = format!("{}{}", "[".repeat(128), "]".repeat(128));
        for text in ["", "no json", "[1", "{\"a\":}", "[1]]", "\"", &deep] {
            assert_eq!(indented_json(text), text);
        }
        let deepest = format!("{}{}", "[".repeat(127), "]".repeat(127));
        assert!(serde_json::from_str::<Value>(&deepest).is_ok());
        assert_eq!(indented_json(&deepest).lines().count(), 253);
    }
}
