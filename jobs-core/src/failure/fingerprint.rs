//! The fingerprint of a failure. Failures with the same fingerprint are shown as one group.
//!
//! It is stored, and programs of different versions write to the same database. So the same text must have the same
//! fingerprint in every version: the tests contain values that must never change.

use std::iter::Peekable;
use std::str::Chars;

/// How much of a message counts. The end of a long message often contains what is different each time.
const MAX_CHARS: usize = 1000;

/// Returns a number from 0 to 2^53 - 1, so that it is exact in JSON, too. Two messages of the same kind of failure have
/// the same number if they differ only in numbers, times, UUIDs, other hexadecimal ids, texts between `'` or `"`, and
/// white space.
pub fn fingerprint(kind: &str, message: &str) -> i64 {
    of_plain_text(kind, &normalised(message))
}

/// The fingerprint of a text in which nothing is left out: FNV-1a over both texts, with the upper bits folded into the
/// lower ones.
pub(super) const fn of_plain_text(kind: &str, text: &str) -> i64 {
    const BITS: u32 = 53;
    let hash = hashed(hashed(hashed(0xcbf2_9ce4_8422_2325, kind.as_bytes()), &[0]), text.as_bytes());
    ((hash ^ (hash >> BITS)) & ((1 << BITS) - 1)).cast_signed()
}

const fn hashed(mut hash: u64, bytes: &[u8]) -> u64 {
    let mut at = 0;
    while at < bytes.len() {
        hash = (hash ^ bytes[at] as u64).wrapping_mul(0x0100_0000_01b3);
        at += 1;
    }
    hash
}

/// The message with `#` in place of numbers, times and ids, and `?` in place of quoted texts.
fn normalised(message: &str) -> String {
    let (mut normal, mut rest, mut before) = (String::new(), message, None);
    for _ in 0..MAX_CHARS {
        let Some(first) = rest.chars().next() else { break };
        let in_word = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
        let taken = if first.is_whitespace() {
            if !normal.ends_with(' ') {
                normal.push(' ');
            }
            first.len_utf8()
        } else if let Some(length) = quoted(rest).filter(|_| !in_word(before)) {
            normal.push('?');
            length
        } else if let Some(length) = id(rest).filter(|_| !in_word(before)) {
            push_number(&mut normal);
            length
        } else if first.is_ascii_digit() {
            push_number(&mut normal);
            rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len()
        } else {
            normal.push(first);
            first.len_utf8()
        };
        before = rest[..taken].chars().next_back();
        rest = &rest[taken..];
    }
    normal.trim().to_owned()
}

/// Adds `#`. Numbers that are joined by a sign, such as the parts of an address, are one number.
fn push_number(normal: &mut String) {
    let joined = normal.strip_suffix(['.', ',', ':', '-', '+', '/']).is_some_and(|begin| begin.ends_with('#'));
    if joined {
        normal.pop();
    } else {
        normal.push('#');
    }
}

/// The length of a text between `'` or `"` at the beginning of `rest`. An apostrophe within a word ends none.
fn quoted(rest: &str) -> Option<usize> {
    let quote = rest.chars().next().filter(|c| matches!(c, '\'' | '"'))?;
    let inside = &rest[1..];
    let mut chars = inside.char_indices().peekable();
    let mut escaped = false;
    while let Some((at, c)) = chars.next() {
        let ends = c == quote && !escaped && !chars.peek().is_some_and(|(_, next)| next.is_alphanumeric());
        if ends {
            return Some(at + 2);
        }
        escaped = c == '\\' && !escaped;
    }
    None
}

/// The length of a UUID, a time or a hexadecimal number at the beginning of `rest`.
fn id(rest: &str) -> Option<usize> {
    let length = uuid(rest).or_else(|| time(rest)).or_else(|| hexadecimal(rest))?;
    let ends = !rest[length..].chars().next().is_some_and(|c| c.is_alphanumeric() || c == '_');
    ends.then_some(length)
}

fn uuid(rest: &str) -> Option<usize> {
    let mut chars = rest.chars().peekable();
    for (group, digits) in [8, 4, 4, 4, 12].into_iter().enumerate() {
        if group > 0 && chars.next() != Some('-') {
            return None;
        }
        if take(&mut chars, |c| c.is_ascii_hexdigit()) != digits {
            return None;
        }
    }
    Some(36)
}

/// `2026-01-02`, and also with `T` or a space, the time of the day and the offset.
fn time(rest: &str) -> Option<usize> {
    let digits = |from: usize, count: usize| {
        let digits = rest.get(from..from + count)?;
        digits.bytes().all(|byte| byte.is_ascii_digit()).then_some(from + count)
    };
    let sign = |at: usize, signs: &[u8]| rest.as_bytes().get(at).filter(|byte| signs.contains(byte)).map(|_| at + 1);
    let date = digits(sign(digits(sign(digits(0, 4)?, b"-")?, 2)?, b"-")?, 2)?;
    let minutes = |from| digits(sign(digits(sign(from, b"T ")?, 2)?, b":")?, 2);
    let Some(mut end) = minutes(date) else { return Some(date) };
    end = sign(end, b":").and_then(|at| digits(at, 2)).unwrap_or(end);
    if let Some(mut fraction) = sign(end, b".,").and_then(|at| digits(at, 1)) {
        while let Some(next) = digits(fraction, 1) {
            fraction = next;
        }
        end = fraction;
    }
    if let Some(zulu) = sign(end, b"Z") {
        return Some(zulu);
    }
    if rest[end..].starts_with(" UTC") {
        return Some(end + 4);
    }
    let Some(hours) = sign(end, b"+-").and_then(|at| digits(at, 2)) else { return Some(end) };
    Some(digits(sign(hours, b":").unwrap_or(hours), 2).unwrap_or(hours))
}

/// `0x..`, or at least eight hexadecimal digits of which one is a decimal digit, so that it is no word.
fn hexadecimal(rest: &str) -> Option<usize> {
    let digits = |text: &str| text.len() - text.trim_start_matches(|c: char| c.is_ascii_hexdigit()).len();
    if let Some(number) = rest.strip_prefix("0x").or_else(|| rest.strip_prefix("0X")) {
        return Some(digits(number)).filter(|digits| *digits > 0).map(|digits| digits + 2);
    }
    let length = digits(rest);
    (length >= 8 && rest[..length].contains(|c: char| c.is_ascii_digit())).then_some(length)
}

fn take(chars: &mut Peekable<Chars<'_>>, is_one: impl Fn(char) -> bool) -> usize {
    let mut taken = 0;
    while chars.next_if(|c| is_one(*c)).is_some() {
        taken += 1;
    }
    taken
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_each_time_is_left_out() {
        for (message, expected) in [
            ("no account 17 in 3 regions", "no account # in # regions"),
            ("user 550e8400-e29b-41d4-a716-446655440000 is gone", "user # is gone"),
            ("connection to 10.0.0.1:5432 refused", "connection to # refused"),
            ("at 2026-11-24T06:18:04.123456Z, then 2026-11-24 06:18:04 UTC", "at #, then #"),
            ("on 2026-11-24", "on #"),
            ("commit deadbeef12 at 0xFF", "commit # at #"),
            ("the facade is defaced", "the facade is defaced"),
            ("no file \"a b.txt\" or 'c\\'d'", "no file ? or ?"),
            ("it can't open the user's file", "it can't open the user's file"),
            ("missing field `name` at line 1 column 20", "missing field `name` at line # column #"),
            ("panicked at src/mail.rs:12:5: no  mail\n", "panicked at src/mail.rs:#: no mail"),
            ("took 1.5s and 1,000 rows", "took #s and # rows"),
            ("", ""),
            ("größer als 7 €", "größer als # €"),
            ("\"", "\""),
        ] {
            assert_eq!(normalised(message), expected);
        }
    }

    #[test]
    fn only_the_beginning_of_a_long_message_counts() {
        let long = "x".repeat(2000);
        assert_eq!(fingerprint("error", &format!("{long}a")), fingerprint("error", &format!("{long}b")));
    }

    /// These numbers are in databases. If this test fails, the change would split every group of failures in two.
    #[test]
    fn the_fingerprints_of_these_messages_never_change() {
        for (kind, message, expected) in [
            ("error", "no account 17", 1_054_232_976_769_199),
            ("error", "no account 18", 1_054_232_976_769_199),
            ("panic", "no account 17", 3_829_404_811_248_673),
            ("timeout", "took longer than its timeout of 30s", 8_615_492_445_661_999),
            ("crash", "", 5_450_033_110_530_923),
            ("cancelled", "cancelled by an operator", 5_113_229_851_155_308),
        ] {
            assert_eq!(fingerprint(kind, message), expected, "{kind}: {message}");
        }
        assert_eq!(super::super::CRASH_FINGERPRINT, fingerprint("crash", ""));
    }
}
