//! The names in a message. A server translates the words around them.

/// A word of a message that can be a name of ours.
pub(super) struct Name<'a> {
    pub(super) text: &'a str,
    /// Whether a quotation mark of any language is before it.
    pub(super) is_quoted: bool,
}

pub(super) fn names(text: &str) -> Vec<Name<'_>> {
    let mut names = Vec::new();
    let mut before = "";
    let mut rest = text;
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
    while let Some(start) = rest.find(is_part) {
        before = if start > 0 { &rest[..start] } else { before };
        let end = rest[start..].find(|c| !is_part(c)).map_or(rest.len(), |length| start + length);
        let is_quoted = before.trim_end().ends_with(['"', '\'', '«', '»', '„', '“', '”', '「', '『', '《']);
        names.push(Name { text: rest[start..end].trim_end_matches('.'), is_quoted });
        rest = &rest[end..];
    }
    names
}
