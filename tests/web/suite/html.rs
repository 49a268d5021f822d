//! Parses pages, and checks that they contain only our own markup.

use std::collections::BTreeMap;

use html5gum::{Token, Tokenizer};

/// The elements that the dashboard writes.
const ELEMENTS: &[&str] = &[
    "a",
    "bdi",
    "body",
    "button",
    "caption",
    "code",
    "datalist",
    "dd",
    "details",
    "div",
    "dl",
    "dt",
    "figcaption",
    "figure",
    "form",
    "h1",
    "h2",
    "h3",
    "head",
    "header",
    "html",
    "input",
    "kbd",
    "label",
    "li",
    "line",
    "link",
    "main",
    "meta",
    "nav",
    "ol",
    "option",
    "p",
    "path",
    "pre",
    "progress",
    "rect",
    "script",
    "section",
    "select",
    "small",
    "span",
    "strong",
    "summary",
    "svg",
    "table",
    "tbody",
    "td",
    "th",
    "thead",
    "time",
    "title",
    "tr",
    "ul",
    "textarea",
    "template",
];

/// The attributes that the dashboard writes. None of them is a style or a handler of events.
const ATTRIBUTES: &[&str] = &[
    "action",
    "aria-current",
    "aria-hidden",
    "aria-invalid",
    "aria-label",
    "aria-labelledby",
    "autocomplete",
    "charset",
    "checked",
    "class",
    "colspan",
    "content",
    "d",
    "data-at",
    "data-events",
    "data-key",
    "data-label",
    "data-search-on",
    "data-select",
    "data-title",
    "datetime",
    "defer",
    "disabled",
    "height",
    "href",
    "id",
    "lang",
    "list",
    "max",
    "method",
    "name",
    "open",
    "preserveaspectratio",
    "rel",
    "required",
    "role",
    "rows",
    "scope",
    "selected",
    "spellcheck",
    "src",
    "tabindex",
    "title",
    "type",
    "value",
    "viewbox",
    "width",
    "x",
    "x1",
    "x2",
    "y",
    "y1",
    "y2",
    "inputmode",
    "placeholder",
    "for",
    "aria-describedby",
    "maxlength",
];

/// An element that begins.
#[derive(Debug)]
pub(crate) struct Element {
    pub(crate) name: String,
    pub(crate) attributes: BTreeMap<String, String>,
    /// Its text, with that of all elements in it.
    pub(crate) text: String,
    /// The elements around it: their names, and their names with their class.
    around: Vec<String>,
}

/// Elements without an end.
const VOID: &[&str] = &["input", "line", "link", "meta", "path", "rect"];

/// A parsed page.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) elements: Vec<Element>,
    /// All texts.
    pub(crate) text: String,
}

impl Page {
    /// Parses a page. Panics if it contains an element, an attribute or an address that the dashboard does not write:
    /// then a text of a job was not escaped.
    pub(crate) fn parse(html: &str) -> Self {
        let mut page = Self { elements: Vec::new(), text: String::new() };
        // The places of the open elements.
        let mut open: Vec<usize> = Vec::new();
        for token in Tokenizer::new(html) {
            match token.unwrap() {
                Token::StartTag(tag) => {
                    let string = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
                    let attributes: BTreeMap<_, _> =
                        tag.attributes.iter().map(|(name, value)| (string(name), string(value))).collect();
                    let around = open.iter().flat_map(|at| page.elements[*at].names()).collect();
                    let element = Element { name: string(&tag.name), attributes, text: String::new(), around };
                    element.check(html);
                    if !VOID.contains(&&*element.name) {
                        open.push(page.elements.len());
                    }
                    page.elements.push(element);
                }
                Token::String(text) => {
                    let text = String::from_utf8_lossy(&text);
                    page.text.push_str(&text);
                    open.iter().for_each(|at| page.elements[*at].text.push_str(&text));
                }
                Token::EndTag(tag) => {
                    let last = open.iter().rposition(|at| page.elements[*at].name.as_bytes() == tag.name.as_slice());
                    open.truncate(last.unwrap_or(open.len()));
                }
                Token::Error(error) => {
                    // Jobs may contain such characters. Browsers show them as nothing, or as a replacement.
                    let name = error.to_string();
                    assert!(name.contains("control-character") || name.contains("noncharacter"), "{name} in {html}");
                }
                Token::Comment(comment) => {
                    let comment = String::from_utf8_lossy(&comment).into_owned();
                    assert!(["live", "/live"].contains(&&*comment), "a foreign comment: {comment}");
                }
                Token::Doctype(_) => {}
            }
        }
        page
    }

    /// The elements with this name.
    pub(crate) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Element> {
        self.elements.iter().filter(move |element| element.name == name)
    }

    /// The values of an attribute.
    pub(crate) fn values<'a>(&'a self, element: &'a str, attribute: &'a str) -> impl Iterator<Item = &'a str> {
        self.all(element).filter_map(move |element| element.attributes.get(attribute)).map(String::as_str)
    }

    /// The texts of the elements with this name within another one, such as `nav.tabs`.
    pub(crate) fn texts(&self, within: &str, name: &str) -> Vec<String> {
        let wanted = self.all(name).filter(|element| element.around.iter().any(|around| around == within));
        wanted.map(|element| element.text.trim().to_owned()).collect()
    }

    /// The texts and addresses of the links within an element, such as `span.offers`.
    pub(crate) fn links(&self, within: &str) -> Vec<(String, String)> {
        let links = self.all("a").filter(|link| link.around.iter().any(|around| around == within));
        links.map(|link| (link.text.trim().to_owned(), link.attributes["href"].clone())).collect()
    }

    /// Whether the page shows this text.
    pub(crate) fn contains(&self, text: &str) -> bool {
        self.text.contains(text)
    }

    /// Panics unless the page shows this text.
    #[track_caller]
    pub(crate) fn shows(&self, text: &str) {
        assert!(self.text.contains(text), "{text:?} is not on the page: {}", self.text);
    }

    #[track_caller]
    pub(crate) fn hides(&self, text: &str) {
        assert!(!self.text.contains(text), "{text:?} is on the page");
    }
}

impl Element {
    fn names(&self) -> Vec<String> {
        let class = self.attributes.get("class").map(|class| format!("{}.{class}", self.name));
        [Some(self.name.clone()), class].into_iter().flatten().collect()
    }

    fn check(&self, html: &str) {
        let Self { name, attributes, .. } = self;
        assert!(ELEMENTS.contains(&&**name), "a foreign element: <{name} {attributes:?}> in {html}");
        for (attribute, value) in attributes {
            assert!(
                ATTRIBUTES.contains(&&**attribute),
                "a foreign attribute: {attribute}={value:?} of <{name}> in {html}"
            );
            if ["href", "src", "action"].contains(&&**attribute) {
                assert!(value.starts_with(crate::client::PREFIX) || value.starts_with('#'), "{attribute}={value:?}");
            }
        }
        if name == "script" {
            assert!(attributes.get("src").is_some_and(|src| src.contains("/assets/")), "a foreign script in {html}");
        }
    }
}
