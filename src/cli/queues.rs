//! The list of queues that a worker serves, as it is written in options: `mail=10,default`, `tenant-*=2`.

use diesel_jobs_core::storage::filter_text::piece;
use diesel_jobs_core::storage::{check_served, refuse_other_notations};

/// One queue, and its number of slots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct QueueEntry {
    /// The queue's name, or a pattern of names.
    pub(super) name: String,
    /// The number of slots, if the list states it.
    pub(super) slots: Option<usize>,
}

/// The queues, in the order in which they were written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct QueueList(pub(super) Vec<QueueEntry>);

/// Longer names cannot be enqueued to.
const MOST_BYTES: usize = 200;

impl QueueList {
    /// Parses a list such as `mail=10,default`. A name between quotation marks is read as it is, and `\"` in it is one
    /// of them.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut entries: Vec<QueueEntry> = Vec::new();
        let mut rest = Some(text);
        while let Some(list) = rest {
            let (quoted, list) = match list.trim_start() {
                quoted if quoted.starts_with('"') => piece(quoted, &[]).map(|(name, after)| (Some(name), after))?,
                plain => (None, plain),
            };
            let (part, after) = list.split_once(',').map_or((list, None), |(part, after)| (part, Some(after)));
            rest = after;
            let part = part.trim();
            if quoted.is_none() && part.contains(';') {
                refuse_other_notations(part)?;
            }
            let (name, slots) = match part.split_once('=') {
                Some((name, number)) => (name.trim_end(), Some(read_slots(part, number.trim_start())?)),
                None => (part, None),
            };
            let name = match &quoted {
                None => name,
                Some(quoted) if name.is_empty() => quoted,
                Some(_) => {
                    return Err(format!("{text:?}: {name:?} follows a closing quotation mark; write a comma or `=`"));
                }
            };
            if name.is_empty() {
                return Err(format!("{text:?} has a queue without a name; write mail=10,default=50"));
            }
            if name.len() > MOST_BYTES {
                return Err(format!(
                    "the name of a queue has at most {MOST_BYTES} bytes, and this one has {}",
                    name.len()
                ));
            }
            if entries.iter().any(|entry| entry.name == name) {
                return Err(format!("queue {name:?} is named twice; write it once, with one number"));
            }
            check_served(name)?;
            if quoted.is_none() {
                refuse_other_notations(name)?;
            }
            // Sidekiq's `-q critical,2`.
            if quoted.is_none()
                && slots.is_none()
                && name.bytes().all(|byte| byte.is_ascii_digit())
                && let Some(QueueEntry { name: before, slots: None }) = entries.last()
            {
                return Err(format!(
                    "queue {name:?}: the number of slots follows a `=`: write {}={name}, or the name of the queue in quotation marks",
                    before.escape_debug()
                ));
            }
            entries.push(QueueEntry { name: name.to_owned(), slots });
        }
        Ok(Self(entries))
    }
}

fn read_slots(part: &str, number: &str) -> Result<usize, String> {
    match number.parse() {
        Ok(0) => Err(format!("{part:?} serves no job at a time; leave the queue out, or write a number from 1")),
        Ok(number) => Ok(number),
        Err(_) => Err(format!("{part:?}: {number:?} is not a whole number from 1")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_and_without_a_number_are_read() {
        let entry = |name: &str, slots| QueueEntry { name: name.to_owned(), slots };
        assert_eq!(
            QueueList::parse("mail=10, default ,slow = 1,tenant-*=2,*"),
            Ok(QueueList(vec![
                entry("mail", Some(10)),
                entry("default", None),
                entry("slow", Some(1)),
                entry("tenant-*", Some(2)),
                entry("*", None)
            ]))
        );
    }

    #[test]
    fn a_name_between_quotation_marks_is_read_as_it_is() {
        let names = |text: &str| {
            QueueList::parse(text)
                .map(|list| list.0.into_iter().map(|entry| (entry.name, entry.slots)).collect::<Vec<_>>())
        };
        let entry = |name: &str, slots| (name.to_owned(), slots);
        assert_eq!(
            names(r#""a,b"=2, " lead" = 3 ,mail,"!x","a=1","q\"\\","mail:2","-x","a.#","2""#),
            Ok(vec![
                entry("a,b", Some(2)),
                entry(" lead", Some(3)),
                entry("mail", None),
                entry("!x", None),
                entry("a=1", None),
                entry(r#"q"\"#, None),
                entry("mail:2", None),
                entry("-x", None),
                entry("a.#", None),
                entry("2", None)
            ])
        );
        for (text, part) in [
            (r#""""#, "without a name"),
            (r#""a"b"#, "\"b\" follows a closing quotation mark"),
            (r#""a,b"#, "a quotation mark is not closed"),
            (r#""a?*""#, "only `*` stands for any characters"),
            (r#""a",a"#, "named twice"),
            (r#""a";b"#, "follows a closing quotation mark"),
        ] {
            let error = names(text).unwrap_err();
            assert!(error.contains(part), "{text:?}: {error}");
        }
    }

    #[test]
    fn wrong_lists_are_refused_with_the_reason() {
        for (text, part) in [
            ("", "without a name"),
            ("mail,,default", "without a name"),
            ("=3", "without a name"),
            ("mail=0", "serves no job"),
            ("mail=many", "\"many\" is not"),
            ("mail=-1", "\"-1\" is not"),
            ("mail=1,mail=2", "named twice"),
            ("*=1,*=2", "named twice"),
            ("tenant-?", "only `*` stands for any characters"),
            ("[a-z]*=2", "only `*` stands for any characters"),
            ("tenant-%=2", "only `*` stands for any characters"),
            ("*,!mail", "only `*` stands for any characters"),
            ("mail,tenant-.*=2", "write `tenant-*`"),
            ("mail,a*b*=2", "a pattern has one `*`"),
            ("web,mail:2", "write mail=2"),
            ("mail:2;web:1", "write mail=2,web=1"),
            ("mail=2;web=1", "write mail=2,web=1"),
            ("*,-mail", "a list cannot exclude a queue"),
            ("tenant.#=2", "write tenant.*"),
            ("critical,2", "write critical=2"),
            (&"q".repeat(201), "at most 200 bytes"),
        ] {
            let error = QueueList::parse(text).unwrap_err();
            assert!(error.contains(part), "{text:?}: {error}");
        }
    }
}
