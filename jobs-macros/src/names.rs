//! Names made out of names, and the name somebody probably meant.

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

/// The candidate nearest to `written`, if one is near enough to be what was meant.
pub(crate) fn nearest<'a>(written: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let written = written.to_lowercase();
    candidates
        .into_iter()
        .map(|candidate| (distance(&written, &candidate.to_lowercase()), candidate))
        .filter(|(distance, candidate)| *distance <= candidate.chars().count() / 3)
        .min()
        .map(|(_, candidate)| candidate)
}

/// How many letters must be added, removed or replaced (Levenshtein), row by row.
fn distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (i, letter) in from.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, &other) in to.iter().enumerate() {
            let replaced = diagonal + usize::from(letter != other);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use super::{nearest, snake, upper_camel};

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

    #[test]
    fn a_slip_finds_its_word_and_another_word_none() {
        let options = ["queue", "priority", "timeout", "kind"];
        for (written, meant) in [("quue", "queue"), ("Priority", "priority"), ("time_out", "timeout")] {
            assert_eq!(nearest(written, options), Some(meant));
        }
        for written in ["color", "retries", "x", ""] {
            assert_eq!(nearest(written, options), None, "{written:?}");
        }
    }
}
