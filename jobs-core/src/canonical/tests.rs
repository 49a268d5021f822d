use serde::Deserialize;

use super::*;

/// What both languages make of one JSON text. `tests/conformance/keys.rs` runs the same cases on the databases.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    json: String,
    canonical: Option<String>,
    refused: Option<String>,
}

#[test]
fn each_case_has_its_canonical_text() {
    let cases: Vec<Case> = serde_json::from_str(include_str!("cases.json")).unwrap();
    for Case { json, canonical, refused } in cases {
        match (super::canonical(&json), canonical, refused) {
            (Ok(text), Some(expected), None) => {
                assert_eq!(text, expected, "{json}");
                if text.len() < 1000 {
                    assert_eq!(super::canonical(&text), Ok(expected), "the text of a value has the same text: {json}");
                }
            }
            (Err(problem), None, Some(words)) => assert!(problem.to_string().contains(&words), "{json}: {problem}"),
            (made, ..) => panic!("{json}: {made:?}"),
        }
    }
}

#[test]
fn what_serde_json_does_not_read_is_no_json() {
    for text in [
        "",
        " ",
        "no",
        "nul",
        "tru",
        "01",
        "-",
        "1.",
        ".5",
        "1e",
        "1e+",
        "+1",
        "0x1",
        "[1,]",
        "[1 2]",
        "[",
        "]",
        "{",
        "{}}",
        "{1:2}",
        "{\"a\"}",
        "{\"a\":}",
        "{\"a\":1,}",
        "\"",
        "\"\\\"",
        "\"\u{1}\"",
        "\"\\",
        "1 2",
        "NaN",
        "Infinity",
        "\u{a0}1",
        "\\",
        "\"\\é",
    ] {
        assert_eq!(canonical(text), Err(KeyProblem::NoJson), "{text:?}");
        assert!(serde_json::from_str::<serde::de::IgnoredAny>(text).is_err(), "{text:?}");
        assert!(fields(text, &["a"]).is_err() && items(text).is_err(), "{text:?}");
    }
    for text in ["\"\\x\"", "\"\\u12\"", "\"\\ud800\"", "\"\\udc00\\ud800\"", "\"\\é\""] {
        assert_eq!(canonical(text), Err(KeyProblem::Escape), "{text}");
        assert!(serde_json::from_str::<String>(text).is_err(), "{text}");
    }
    assert_eq!(canonical(&"[".repeat(1 << 20)), Err(KeyProblem::Deep));
}

#[test]
fn fields_come_in_the_order_of_the_names() {
    let args = r#"{"a": [1, {"b": 2}], "b": 7, "c\u0064": "x", "e": "\u0000", "b": 8.0}"#;
    assert_eq!(fields(args, &["cd", "b", "cd"]), Ok(vec![r#""x""#.to_owned(), "8".to_owned(), r#""x""#.to_owned()]));
    assert_eq!(fields(args, &["b", "f"]), Err(KeyProblem::Missing("f".to_owned())));
    assert_eq!(fields(args, &["e"]), Err(KeyProblem::Nul), "only a NUL in the key is refused");
    for (no_object, problem) in [
        ("[1]", KeyProblem::NoObject),
        ("7", KeyProblem::NoObject),
        ("{} {}", KeyProblem::NoJson),
        (r#"{"b": 1"#, KeyProblem::NoJson),
    ] {
        assert_eq!(fields(no_object, &["b"]), Err(problem), "{no_object}");
    }
    assert_eq!(items(r#" [1.0, "a" , {}] "#), Ok(vec!["1".to_owned(), r#""a""#.to_owned(), "{}".to_owned()]));
}
