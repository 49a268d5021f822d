//! Converts names between UpperCamelCase and snake_case, and takes the version off a kind.

/// `send_welcome` → `SendWelcome`.
pub(crate) fn upper_camel(snake: &str) -> String {
    snake
        .split('_')
        .flat_map(|word| {
            let mut letters = word.chars();
            letters.next().into_iter().flat_map(char::to_uppercase).chain(letters)
        })
        .collect()
}

/// `SendWelcome` → `send_welcome`, `HTTPPing` → `http_ping`.
pub(crate) fn snake(camel: &str) -> String {
    let letters: Vec<char> = camel.chars().collect();
    let mut snake = String::with_capacity(camel.len() + 4);
    for (i, &letter) in letters.iter().enumerate() {
        let before = i.checked_sub(1).map(|i| letters[i]);
        let after = letters.get(i + 1);
        let starts_word = letter.is_uppercase()
            && before.is_some_and(|before| {
                before != '_' && (!before.is_uppercase() || after.is_some_and(|after| after.is_lowercase()))
            });
        if starts_word {
            snake.push('_');
        }
        snake.extend(letter.to_lowercase());
    }
    snake
}

/// The kind without its version, if it has one: `pay` of `pay.v2`.
pub(crate) fn without_version(kind: &str) -> Option<&str> {
    let (name, version) = kind.rsplit_once(".v")?;
    (!version.is_empty() && version.bytes().all(|byte| byte.is_ascii_digit())).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::{snake, upper_camel};

    #[test]
    fn functions_name_structs() {
        for (function, name) in [
            ("send_welcome", "SendWelcome"),
            ("a", "A"),
            ("_hidden", "Hidden"),
            ("mail2_b", "Mail2B"),
            ("über_uns", "ÜberUns"),
        ] {
            assert_eq!(upper_camel(function), name);
        }
    }

    #[test]
    fn structs_name_kinds() {
        for (name, kind) in [
            ("SendWelcome", "send_welcome"),
            ("HTTPPing", "http_ping"),
            ("PingHTTP", "ping_http"),
            ("Mail2B", "mail2_b"),
            ("A", "a"),
            ("Already_Split", "already_split"),
        ] {
            assert_eq!(snake(name), kind);
        }
    }
}
