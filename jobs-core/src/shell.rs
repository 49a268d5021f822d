//! Names inside the commands that messages tell an operator to run.
//!
//! A name may have any characters. Whoever pastes a command into a shell must not run anything else.

use std::borrow::Cow;
use std::fmt::Write as _;

use crate::queue_pattern::refuse_other_notations;

/// Whether this character moves the cursor, changes the direction of writing, breaks the line or cannot be seen. Texts
/// for people have escapes in its place.
pub fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

/// A name as a word of a command: as it is, or in quotes if a shell would read more in it than a name.
pub fn word(name: &str) -> Cow<'_, str> {
    if name.contains(is_hidden) {
        return Cow::Owned(escaped(name));
    }
    let is_plain = |c: char| c.is_alphanumeric() || "_-./:@%+=,".contains(c);
    // Some shells read a name that begins with `=` as the path of a program.
    if !name.is_empty() && !name.starts_with('=') && name.chars().all(is_plain) {
        return Cow::Borrowed(name);
    }
    Cow::Owned(format!("'{}'", name.replace('\'', r"'\''")))
}

/// The form `$'a\012b'`, in which the shell puts the hidden characters in. Shells that do not know it leave the dollar
/// sign, and no queue or kind has such a name.
fn escaped(name: &str) -> String {
    let mut word = "$'".to_owned();
    for c in name.chars() {
        match c {
            '\'' | '\\' => word.extend(['\\', c]),
            c if is_hidden(c) => {
                for byte in c.encode_utf8(&mut [0; 4]).bytes() {
                    let _ = write!(word, "\\{byte:03o}");
                }
            }
            c => word.push(c),
        }
    }
    word.push('\'');
    word
}

/// A name as an argument of a command. Behind `--`, one that begins with `-` is not read as an option. Options come
/// before it.
pub fn argument(name: &str) -> Cow<'_, str> {
    let word = word(name);
    if name.starts_with('-') { Cow::Owned(format!("-- {word}")) } else { word }
}

/// An option of a command with a name as its value: `--queue mail`, or `--queue=-x`, because `-x` alone would be read
/// as an option.
pub fn option(option: &str, name: &str) -> String {
    let between = if name.starts_with('-') { '=' } else { ' ' };
    format!("{option}{between}{}", word(name))
}

/// A value between quotation marks, as filters and lists of queues read it.
pub fn in_quotation_marks(value: &str) -> String {
    format!("\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\""))
}

/// The options that select the jobs of a queue, or those of a kind in it. `--queue` and `--kind` take lists, so a name
/// with a comma is written in a filter.
pub fn jobs_of(queue: &str, kind: Option<&str>) -> String {
    if queue.contains(',') || kind.is_some_and(|kind| kind.contains(',')) {
        let of_kind = kind.map(|kind| format!(" kind:{}", in_quotation_marks(kind))).unwrap_or_default();
        return option("--filter", &format!("queue:{}{of_kind}", in_quotation_marks(queue)));
    }
    let of_kind = kind.map(|kind| format!(" {}", option("--kind", kind)));
    option("--queue", queue) + &of_kind.unwrap_or_default()
}

/// The option with which a worker serves a queue. In the list, a name between quotation marks is read as it is.
pub fn serving(queue: &str) -> String {
    let is_plain = queue.trim() == queue && !queue.contains([',', '=', '"']) && refuse_other_notations(queue).is_ok();
    match is_plain {
        true => option("--queues", queue),
        false => option("--queues", &in_quotation_marks(queue)),
    }
}

#[cfg(test)]
mod tests {
    use super::{argument, jobs_of, option, serving, word};

    #[test]
    fn only_a_name_that_a_shell_would_read_otherwise_is_quoted() {
        for plain in ["mail", "tenant-7", "a.b_c:1/2@x%+=,", "größe", "日本"] {
            assert_eq!(word(plain), plain);
        }
        for (name, quoted) in [
            ("", "''"),
            ("x; rm -rf .", "'x; rm -rf .'"),
            ("$(reboot)", "'$(reboot)'"),
            ("it's", r"'it'\''s'"),
            ("\"a\"", "'\"a\"'"),
            ("tenant-*", "'tenant-*'"),
            ("a`b`", "'a`b`'"),
            ("=ls", "'=ls'"),
            ("it's\n\u{1b}[2J\\", r"$'it\'s\012\033[2J\\'"),
            ("a\u{202e}b", r"$'a\342\200\256b'"),
        ] {
            assert_eq!(word(name), quoted);
        }
    }

    #[test]
    fn a_name_that_begins_like_an_option_is_not_read_as_one() {
        assert_eq!((&*argument("mail"), &*option("--queue", "mail")), ("mail", "--queue mail"));
        assert_eq!((&*argument("-x"), &*option("--queue", "-x")), ("-- -x", "--queue=-x"));
        assert_eq!((&*argument("--a b"), &*option("--queue", "--a b")), ("-- '--a b'", "--queue='--a b'"));
    }

    #[test]
    fn a_shell_reads_the_name_again() {
        for name in ["mail", "x; echo y", "it's", "$HOME `id` \\ \" !", "*"] {
            let echo = format!("printf %s {}", word(name));
            let said = std::process::Command::new("sh").args(["-c", &echo]).output().unwrap();
            assert_eq!(String::from_utf8(said.stdout).unwrap(), name);
        }
    }

    #[test]
    fn another_shell_reads_names_with_hidden_characters_again() {
        for name in ["a\n1", "ends\n", "it's\t\\n\u{1b}[2J", "a\u{202e}b\u{feff}1"] {
            let echo = format!("printf %s {}", word(name));
            let said = std::process::Command::new("bash").args(["-c", &echo]).output().unwrap();
            assert_eq!(String::from_utf8(said.stdout).unwrap(), name);
        }
    }

    #[test]
    fn a_name_that_a_list_would_split_is_written_in_another_form() {
        for (queue, kind, options) in [
            ("mail", None, "--queue mail"),
            ("mail", Some("charge"), "--queue mail --kind charge"),
            ("mail", Some("a,b"), r#"--filter 'queue:"mail" kind:"a,b"'"#),
            ("a, \"b\"", None, r#"--filter 'queue:"a, \"b\""'"#),
        ] {
            assert_eq!(jobs_of(queue, kind), options);
        }
        for (queue, options) in [
            ("mail", "--queues mail"),
            ("a b", "--queues 'a b'"),
            ("-x", r#"--queues '"-x"'"#),
            ("mail:2", r#"--queues '"mail:2"'"#),
            ("a,b", r#"--queues '"a,b"'"#),
            ("a=2", r#"--queues '"a=2"'"#),
            (" lead", r#"--queues '" lead"'"#),
            ("!x", r#"--queues '"!x"'"#),
            ("x\n", r#"--queues $'"x\012"'"#),
            (r#""a\"#, r#"--queues '"\"a\\"'"#),
        ] {
            assert_eq!(serving(queue), options);
        }
    }
}
