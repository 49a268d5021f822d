//! Sentences in which the names of jobs, queues, kinds, limits and workers are links. Whoever shows a sentence says
//! what it names, so a name with any characters becomes a link to just this thing, and a text that a job wrote becomes
//! none.

use std::cmp::Reverse;

use askama::Template;
use askama::filters::HtmlSafe;
use diesel_jobs_core::JobId;

use crate::format::prose;
use crate::link::Base;

/// What a sentence names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Named {
    Job(JobId),
    Queue(String),
    Kind(String),
    /// A limit, a rate or a sequence.
    Limit(String),
    /// The process and machine of a worker.
    Worker(String),
}

/// The words of which one stands before a name.
const OF_JOBS: &[&str] = &["job"];
const OF_QUEUES: &[&str] = &["queue", "if"];
const OF_KINDS: &[&str] = &["kind", "if"];
const OF_LIMITS: &[&str] = &["limit", "rate", "sequence"];

impl Named {
    /// The words of which one stands before the name, and the name as it stands in a sentence. Without words, nothing
    /// in particular stands before it.
    fn written(&self) -> (&'static [&'static str], String) {
        let quoted = |name: &str| format!("`{name}`");
        match self {
            Self::Job(id) => (OF_JOBS, id.to_string()),
            Self::Queue(name) => (OF_QUEUES, quoted(name)),
            Self::Kind(name) => (OF_KINDS, quoted(name)),
            Self::Limit(name) => (OF_LIMITS, quoted(name)),
            Self::Worker(name) => (&[], name.clone()),
        }
    }

    fn url(&self, base: &Base) -> String {
        match self {
            Self::Job(id) => base.to(&format!("/jobs/{id}")),
            Self::Queue(name) => base.with("/queues/one", [("name", name.as_str())]),
            Self::Kind(name) => base.with("/kinds/one", [("name", name.as_str())]),
            Self::Limit(_) => base.to("/limits"),
            Self::Worker(_) => base.to("/workers"),
        }
    }

    /// Where the text names it first, from this place on: the place, and the name as it stands there.
    fn find(&self, text: &str, from: usize) -> Option<(usize, String)> {
        let (words, name) = self.written();
        let mut places = text.get(from..)?.match_indices(&name).map(|(at, _)| from + at);
        let is_named = |at: &usize| {
            let (before, after) =
                (text.get(..*at).unwrap_or_default(), text.get(at + name.len()..).unwrap_or_default());
            // A number does not end before another digit.
            (words.is_empty() || words.iter().any(|word| ends_with(before, word)))
                && !after.starts_with(|c: char| c.is_ascii_digit())
        };
        let at = places.find(is_named)?;
        Some((at, name))
    }
}

/// Whether the text ends with this word and a space. The word may begin the sentence.
fn ends_with(text: &str, word: &str) -> bool {
    let Some(text) = text.strip_suffix(' ') else { return false };
    let Some(start) = text.len().checked_sub(word.len()).filter(|start| text.is_char_boundary(*start)) else {
        return false;
    };
    let (before, last) = text.split_at(start);
    last.eq_ignore_ascii_case(word) && !before.ends_with(char::is_alphanumeric)
}

/// The first of these that the text names from this place on. Of several names at one place it is the longest.
fn first<'n>(text: &str, from: usize, named: &'n [Named]) -> Option<(usize, String, &'n Named)> {
    let found = named.iter().filter_map(|one| one.find(text, from).map(|(at, name)| (at, name, one)));
    found.min_by_key(|(at, name, _)| (*at, Reverse(name.len())))
}

/// Those of these that the text names, in its order.
pub(crate) fn named_in<'n>(text: &str, named: &'n [Named]) -> Vec<&'n Named> {
    let next = |from: &usize| first(text, *from, named).map(|(at, name, one)| (at + name.len(), one));
    std::iter::successors(next(&0), |(end, _)| next(end)).map(|(_, one)| one).collect()
}

/// The jobs that a text of our own names.
pub(crate) fn jobs_in(text: &str) -> Vec<Named> {
    let ids = text.match_indices("job ").filter_map(|(at, word)| {
        let rest = text.get(at + word.len()..)?;
        let digits = rest.find(|c: char| !c.is_ascii_digit()).map_or(rest, |end| &rest[..end]);
        digits.parse().ok()
    });
    ids.map(|id| Named::Job(JobId(id))).collect()
}

/// A part of a sentence.
enum Piece {
    Text(String),
    Code(String),
    Link { url: String, name: String, is_code: bool },
}

/// A sentence with links.
#[derive(Template, Default)]
#[template(
    source = "{% for piece in pieces %}{% match piece %}{% when Piece::Text(text) %}{{ text }}{% when Piece::Code(text) %}<code>{{ text }}</code>\
              {% when Piece::Link { url, name, is_code } %}<a href=\"{{ url }}\">{% if *is_code %}<code>{{ name }}</code>{% else %}{{ name }}{% endif %}</a>\
              {% endmatch %}{% endfor %}",
    ext = "html"
)]
pub(crate) struct Sentence {
    pieces: Vec<Piece>,
}

impl HtmlSafe for Sentence {}

impl Sentence {
    /// The text with links to what it names.
    pub(crate) fn new(text: &str, named: &[Named], base: &Base) -> Self {
        let (mut pieces, mut from) = (Vec::new(), 0);
        let plain = |text: &str| -> Vec<Piece> {
            let piece = |(is_code, text): (bool, &str)| match is_code {
                true => Piece::Code(text.to_owned()),
                false => Piece::Text(text.to_owned()),
            };
            prose(text).into_iter().map(piece).collect()
        };
        while let Some((at, name, one)) = first(text, from, named) {
            pieces.extend(plain(text.get(from..at).unwrap_or_default()));
            from = at + name.len();
            let shown = name.strip_prefix('`').and_then(|name| name.strip_suffix('`'));
            let (name, is_code) = (shown.unwrap_or(&name).to_owned(), shown.is_some());
            pieces.push(Piece::Link { url: one.url(base), name, is_code });
        }
        pieces.extend(plain(text.get(from..).unwrap_or_default()));
        Self { pieces }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn html(text: &str, named: &[Named]) -> String {
        Sentence::new(text, named, &Base::new("/x")).to_string()
    }

    fn queue(name: &str) -> Named {
        Named::Queue(name.to_owned())
    }

    #[test]
    fn what_a_sentence_names_is_a_link() {
        assert_eq!(
            html("Queue `a b` is full: job 7, job 71; `worker why 7`", &[queue("a b"), Named::Job(JobId(7))]),
            "Queue <a href=\"/x/queues/one?name=a+b\"><code>a b</code></a> is full: job <a href=\"/x/jobs/7\">7</a>, job 71; \
             <code>worker why 7</code>"
        );
        assert_eq!(
            html("runs in process 4 on web-1", &[Named::Worker("process 4 on web-1".to_owned())]),
            "runs in <a href=\"/x/workers\">process 4 on web-1</a>"
        );
        // Another word stands before the name of another thing.
        assert_eq!(html("kind `mail`", &[queue("mail")]), "kind <code>mail</code>");
        assert_eq!(html("myqueue `mail`, `mail`", &[queue("mail")]), "myqueue <code>mail</code>, <code>mail</code>");
    }

    #[test]
    fn a_name_may_have_any_characters() {
        let hostile = "a`<b> queue `c";
        assert_eq!(
            html(&format!("queue `{hostile}` is paused"), &[queue("c"), queue("a"), queue(hostile)]),
            "queue <a href=\"/x/queues/one?name=a%60%3Cb%3E+queue+%60c\"><code>a`&#60;b&#62; queue `c</code></a> is paused"
        );
        assert_eq!(
            html("queue `ä", &[queue("x"), Named::Worker("ä".to_owned())]),
            "queue `<a href=\"/x/workers\">ä</a>"
        );
    }

    #[test]
    fn names_are_found_in_the_order_of_the_text() {
        let named = [queue("b"), queue("a"), queue("c")];
        assert_eq!(named_in("queue `a` and queue `b`", &named), [&named[1], &named[0]]);
        assert_eq!(jobs_in("job 12 (x), job y, job 3"), [Named::Job(JobId(12)), Named::Job(JobId(3))]);
    }
}
