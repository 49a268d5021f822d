//! The queues that a worker serves, as it names them: a name, or a pattern such as `tenant-*`.
//!
//! A name with a `*` is a pattern, and the `*` stands for any characters, also for none. No job can be enqueued into a
//! queue whose name has a `*`, so a name is never mistaken for a pattern. If several names of a worker fit a queue, the
//! most specific one counts: the name of the queue itself, else the pattern with the longest text before its `*`, and
//! of those the one with the longest text after it.

/// What a `*` in the name of a queue would mean.
pub(crate) const HAS_A_STAR: &str = "contains `*`, which stands for any characters where a worker names its queues";

/// Characters that shells, SQL, regular expressions and other queues use in patterns.
const OF_OTHER_PATTERNS: [char; 13] = ['?', '[', ']', '{', '}', '(', ')', '|', '^', '$', '%', '!', '\\'];

/// Whether this names all queues that fit, and not one queue.
pub fn is_pattern(name: &str) -> bool {
    name.contains('*')
}

/// Whether a worker that names its queues so serves this queue.
pub fn fits(name: &str, queue: &str) -> bool {
    match name.split_once('*') {
        None => name == queue,
        Some((before, after)) => {
            queue.len() >= before.len() + after.len() && queue.starts_with(before) && queue.ends_with(after)
        }
    }
}

/// The most specific of these names and patterns that fits the queue. It says how many slots the queue has. `None`: the
/// queue is not served.
pub fn served_as<S: AsRef<str>>(names: impl IntoIterator<Item = S>, queue: &str) -> Option<S> {
    let specificity = |name: &str| match name.split_once('*') {
        None => (true, 0, 0),
        Some((before, after)) => (false, before.len(), after.len()),
    };
    names.into_iter().filter(|name| fits(name.as_ref(), queue)).max_by_key(|name| specificity(name.as_ref()))
}

/// Refuses a pattern where one queue is named.
#[doc(hidden)]
pub fn check_one_queue(name: &str) -> Result<(), String> {
    if is_pattern(name) {
        let (name, one) = (name.escape_debug(), name.replace('*', "1"));
        let one = one.escape_debug();
        return Err(format!("`{name}` is not a queue: it {HAS_A_STAR}; name one queue, such as `{one}`"));
    }
    Ok(())
}

/// Refuses what cannot be meant as the name of a queue, or as a pattern. A name without a `*` may have any characters.
#[doc(hidden)]
pub fn check_served(name: &str) -> Result<(), String> {
    if name.is_empty() {
        return Err("the name of a queue must not be empty; `*` stands for all queues".to_owned());
    }
    if name.matches('*').count() > 1 {
        return Err(format!(
            "queue {name:?}: a pattern has one `*`, as in `tenant-*`; write several patterns if you need them"
        ));
    }
    if is_pattern(name) { refuse_other_patterns(name) } else { Ok(()) }
}

/// Refuses what other programs read as more than a name. In a list that somebody types, it is more likely a mistake
/// than the name of a queue, which can be written in quotation marks.
#[doc(hidden)]
pub fn refuse_other_notations(name: &str) -> Result<(), String> {
    match in_other_notation(name) {
        Some(problem) => Err(format!("queue {name:?}: {problem}, or the name of the queue in quotation marks")),
        None => refuse_other_patterns(name),
    }
}

fn in_other_notation(name: &str) -> Option<String> {
    // A list of several pools, as GoodJob has it.
    if name.contains(';') {
        let parts = name.split(';').map(str::trim).filter(|part| !part.is_empty());
        let entry =
            |part| with_slots(part).map_or_else(|| String::from(part), |(queue, slots)| format!("{queue}={slots}"));
        let list = parts.map(entry).collect::<Vec<_>>().join(",");
        return Some(format!("commas separate the queues of a list: write {}", list.escape_debug()));
    }
    if let Some((queue, slots)) = with_slots(name) {
        return Some(format!("the number of slots follows a `=`: write {}={slots}", queue.escape_debug()));
    }
    if name.starts_with('-') {
        return Some("a list cannot exclude a queue: write those that the worker serves".to_owned());
    }
    if let Some(queue) = name.strip_prefix('+').filter(|queue| !queue.is_empty()) {
        return Some(format!("queues have no order: write {}", queue.escape_debug()));
    }
    // The wildcards of AMQP, NATS and MQTT are words between dots or slashes.
    let is_end = |c: Option<char>| c.is_none_or(|c| matches!(c, '.' | '/'));
    let is_word = |at: usize| is_end(name[..at].chars().next_back()) && is_end(name[at + 1..].chars().next());
    let (at, word) = name.match_indices(['#', '>', '+']).find(|(at, _)| is_word(*at))?;
    let glob = format!("{}*{}", &name[..at], &name[at + 1..]);
    Some(format!("`{word}` stands for nothing else, only `*` does: write {}", glob.escape_debug()))
}

/// The parts of a text such as `mail:2`.
fn with_slots(text: &str) -> Option<(&str, &str)> {
    let (queue, slots) = text.rsplit_once(':')?;
    let (queue, slots) = (queue.trim_end(), slots.trim_start());
    (!queue.is_empty() && !slots.is_empty() && slots.bytes().all(|byte| byte.is_ascii_digit()))
        .then_some((queue, slots))
}

/// Refuses what other programs would read as a pattern.
fn refuse_other_patterns(name: &str) -> Result<(), String> {
    // `tenant.*` names the queues whose names begin with `tenant.`, so only a dot that cannot end such a beginning is
    // one of a regular expression.
    if let Some(before) = name.strip_suffix(".*")
        && !before.ends_with(char::is_alphanumeric)
    {
        let glob = format!("{before}*");
        return Err(format!(
            "queue {name:?} is written as a regular expression; in a pattern of queues `*` alone stands for any \
             characters: write `{}`",
            glob.escape_debug()
        ));
    }
    match name.chars().find(|character| OF_OTHER_PATTERNS.contains(character)) {
        Some(other) => Err(format!(
            "queue {name:?}: `{other}` has no meaning in a pattern of queues; only `*` stands for any characters, as in \
             `tenant-*`"
        )),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_characters() {
        for (name, queue) in [
            ("mail", "mail"),
            ("*", "mail"),
            ("tenant-*", "tenant-"),
            ("tenant-*", "tenant-7"),
            ("a*z", "az"),
            ("*z", "abcz"),
        ] {
            assert!(fits(name, queue), "{name} fits {queue}");
        }
        for (name, queue) in [("mail", "mai"), ("tenant-*", "tenant"), ("aa*aa", "aaa"), ("a*z", "abc"), ("*z", "za")] {
            assert!(!fits(name, queue), "{name} does not fit {queue}");
        }
    }

    #[test]
    fn the_most_specific_name_counts_whatever_the_order() {
        let mut names = ["*", "tenant-*", "tenant-*-slow", "tenant-7*", "tenant-7"];
        for _ in 0..2 {
            for (queue, name) in [
                ("tenant-7", Some("tenant-7")),
                ("tenant-70", Some("tenant-7*")),
                ("tenant-70-slow", Some("tenant-7*")),
                ("tenant-8-slow", Some("tenant-*-slow")),
                ("tenant-8", Some("tenant-*")),
                ("mail", Some("*")),
            ] {
                assert_eq!(served_as(names, queue), name, "{queue}");
            }
            names.reverse();
        }
        assert_eq!(served_as(["tenant-*", "mail"], "default"), None);
    }

    #[test]
    fn what_cannot_be_meant_is_refused_with_what_to_write() {
        for (name, part) in [
            ("tenant-?*", "`?` has no meaning"),
            ("[a-z]*", "`[` has no meaning"),
            ("{a*", "`{` has no meaning"),
            ("!mail*", "`!` has no meaning"),
            ("^tenant-*", "`^` has no meaning"),
            ("tenant-(a|b)*", "`(` has no meaning"),
            (r"tenant-\d*", r"`\` has no meaning"),
            ("tenant-.*", "as a regular expression"),
            ("a*b*", "has one `*`"),
            ("**", "has one `*`"),
        ] {
            let refused = check_served(name).unwrap_err();
            assert!(refused.contains(part) && refused.contains("`tenant-*`"), "{name}: {refused}");
        }
        for name in ["tenant-?", "tenant-%", "!mail", "mail|web", "mail$"] {
            assert!(refuse_other_patterns(name).unwrap_err().contains("has no meaning"), "{name}");
        }
        assert!(refuse_other_patterns(".*").unwrap_err().contains("write `*`"));
        for (name, part) in [
            ("mail:2", "write mail=2, or the name of the queue in quotation marks"),
            ("mail: 2", "write mail=2, or"),
            ("*:2", "write *=2, or"),
            ("mail:2;web:1", "write mail=2,web=1, or"),
            ("mail;*", "write mail,*, or"),
            ("-mail", "cannot exclude a queue"),
            ("+mail", "write mail, or"),
            ("tenant.#", "write tenant.*, or"),
            ("tenant.>", "write tenant.*, or"),
            ("tenant/+/slow", "write tenant/*/slow, or"),
            ("#", "write *, or"),
            ("mail|web", "`|` has no meaning"),
        ] {
            let refused = refuse_other_notations(name).unwrap_err();
            assert!(refused.contains(part), "{name}: {refused}");
            assert!(name.contains('|') || check_served(name).is_ok(), "{name} may be in quotation marks");
        }
        for name in ["mail", "*", "tenant-*", "a:b", "a:b:*", ":2", "c#", "tenant#7", "a+b", "mail-2", "é>"] {
            assert_eq!(refuse_other_notations(name), Ok(()));
        }
        for name in ["mail", "*", "tenant-*", "tenant.*", "*-slow", "a b", "{}", "why?", "100%"] {
            assert_eq!(check_served(name), Ok(()));
        }
    }
}
