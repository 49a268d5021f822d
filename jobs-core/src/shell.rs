//! Names inside the commands that messages tell an operator to run.
//!
//! A name may have any characters. Whoever pastes a command into a shell must not run anything else.

use std::borrow::Cow;

/// A name as a word of a command: as it is, or in quotes if a shell would read more in it than a name.
pub fn word(name: &str) -> Cow<'_, str> {
    let is_plain = |c: char| c.is_alphanumeric() || "_-./:@%+=,".contains(c);
    // Some shells read a name that begins with `=` as the path of a program.
    if !name.is_empty() && !name.starts_with('=') && name.chars().all(is_plain) {
        return Cow::Borrowed(name);
    }
    Cow::Owned(format!("'{}'", name.replace('\'', r"'\''")))
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

#[cfg(test)]
mod tests {
    use super::{argument, option, word};

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
        for name in ["mail", "x; echo y", "it's", "a\nb", "$HOME `id` \\ \" !", "*"] {
            let echo = format!("printf %s {}", word(name));
            let said = std::process::Command::new("sh").args(["-c", &echo]).output().unwrap();
            assert_eq!(String::from_utf8(said.stdout).unwrap(), name);
        }
    }
}
