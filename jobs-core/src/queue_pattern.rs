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

/// Refuses what other programs would read as a pattern. In a list that somebody types, it is more likely a mistake than
/// the name of a queue.
#[doc(hidden)]
pub fn refuse_other_patterns(name: &str) -> Result<(), String> {
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
        for name in ["mail", "*", "tenant-*", "tenant.*", "*-slow", "a b", "{}", "why?", "100%"] {
            assert_eq!(check_served(name), Ok(()));
        }
    }
}
