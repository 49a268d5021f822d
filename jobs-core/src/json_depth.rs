//! How deep JSON is nested.

/// The deepest nesting that is stored. Databases store deeper JSON, too, but `serde_json` refuses to read it.
pub(crate) const MAX_DEPTH: usize = 127;

/// Whether a worker could not read this JSON.
pub(crate) fn is_too_deep(json: &[u8]) -> bool {
    // Each level takes two bytes, so most arguments need no count.
    json.len() > 2 * MAX_DEPTH && depth(json) > MAX_DEPTH
}

/// How deep arrays and objects are nested in valid JSON.
fn depth(json: &[u8]) -> usize {
    let (mut depth, mut deepest, mut in_string, mut escaped) = (0_usize, 0, false, false);
    for byte in json {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'[' | b'{' if !in_string => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b']' | b'}' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn what_is_not_too_deep_can_be_read() {
        let nested = |open: &str, close: &str, levels: usize| open.repeat(levels) + "0" + &close.repeat(levels);
        for (open, close) in [("[", "]"), ("{\"a\\\"[\":", "}"), ("[[", "]]")] {
            for levels in 1..=130 {
                let json = nested(open, close, levels);
                assert_eq!(is_too_deep(json.as_bytes()), serde_json::from_str::<Value>(&json).is_err(), "{json}");
            }
        }
        let flat = format!("[{}\"{}\"]", "[],".repeat(200), "[".repeat(200));
        assert!(!is_too_deep(flat.as_bytes()) && serde_json::from_str::<Value>(&flat).is_ok());
    }
}
