//! Builds the addresses of the dashboard's pages.

use form_urlencoded::Serializer;

/// Where the dashboard is, as the browser sees it: empty, or `/admin/jobs`.
#[derive(Clone, Debug)]
pub(crate) struct Base(String);

impl Base {
    /// Leaves out a slash at the end, and adds one at the start.
    pub(crate) fn new(path: &str) -> Self {
        let path = path.trim_matches('/');
        Self(if path.is_empty() { String::new() } else { format!("/{path}") })
    }

    /// The address of a page. `path` starts with a slash.
    pub(crate) fn to(&self, path: &str) -> String {
        match (self.0.as_str(), path) {
            // The router that nests the dashboard answers its own path without a slash.
            (base, "/") if !base.is_empty() => base.to_owned(),
            (base, path) => format!("{base}{path}"),
        }
    }

    /// The address of a page with a query. Pairs with an empty value are left out.
    pub(crate) fn with<'a>(&self, path: &str, query: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
        let query = encode(query);
        if query.is_empty() { self.to(path) } else { format!("{}?{query}", self.to(path)) }
    }
}

/// Encodes a query. Pairs with an empty value are left out.
pub(crate) fn encode<'a>(query: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let mut text = Serializer::new(String::new());
    for (name, value) in query {
        if !value.is_empty() {
            text.append_pair(name, value);
        }
    }
    text.finish()
}

/// Reads a query or the body of a form.
pub(crate) fn decode(query: &str) -> Vec<(String, String)> {
    form_urlencoded::parse(query.as_bytes()).into_owned().collect()
}

/// Refuses a NUL character. No name and no text of the database has one, and PostgreSQL fails if it is asked for one.
/// Returns the text for the reader.
pub(crate) fn refuse_nul(pairs: &[(String, String)]) -> Result<(), Nul> {
    let has_nul = |(name, value): &&(String, String)| name.contains('\0') || value.contains('\0');
    match pairs.iter().find(has_nul) {
        None => Ok(()),
        Some((name, _)) => Err(Nul(name.replace('\0', ""))),
    }
}

/// The name of a value with a NUL character.
#[derive(Debug)]
pub(crate) struct Nul(String);

impl std::fmt::Display for Nul {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self(name) = self;
        write!(f, "{name:?} contains a NUL character (%00), which no name and no text in the database has. Remove it.")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_begin_with_the_base() {
        for (base, expected) in [("", "/jobs"), ("/", "/jobs"), ("admin/", "/admin/jobs"), ("/a/b", "/a/b/jobs")] {
            assert_eq!(Base::new(base).to("/jobs"), expected);
        }
        assert_eq!((Base::new("").to("/"), Base::new("/admin").to("/")), ("/".to_owned(), "/admin".to_owned()));
    }

    #[test]
    fn a_query_survives_encoding() {
        let hostile = "a&b=c#\"<script>'%00\u{202e}é ";
        let url = Base::new("/x").with("/jobs", [("kind", hostile), ("queue", "")]);
        let query = url.strip_prefix("/x/jobs?").unwrap();
        assert!(!query.contains(['<', '"', '\'', '#', ' ']), "{query}");
        assert_eq!(decode(query), [("kind".to_owned(), hostile.to_owned())]);
    }
}
