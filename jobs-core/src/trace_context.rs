//! Trace contexts: an enqueue stores the current one with the job, and the attempt of the job continues the trace. They
//! are W3C `traceparent` texts, and they are stored beside the arguments. Baggage is not stored.
//!
//! This crate knows no tracing library besides `tracing`. A program that has one, such as OpenTelemetry, sets a source
//! of contexts and a function that connects spans. Both are set once per process. Without them an enqueue costs the
//! check of a flag.

use std::fmt;
use std::sync::OnceLock;

use serde::{Serialize, Serializer};
use tracing::Span;

/// The length of a `traceparent` of version 00.
const LENGTH: usize = 55;

/// A W3C `traceparent`, such as `00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01`.
#[derive(Clone, PartialEq, Eq)]
pub struct Traceparent(Box<str>);

impl Traceparent {
    /// Checks the text: version 00, two ids in lower case hexadecimal that are not zero, and flags. Returns `None` for
    /// any other.
    ///
    /// ```
    /// # use diesel_jobs_core::Traceparent;
    /// let trace = Traceparent::parse("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01").unwrap();
    /// assert_eq!(trace.trace_id(), "0af7651916cd43dd8448eb211c80319c");
    /// assert!(Traceparent::parse("00-00000000000000000000000000000000-b7ad6b7169203331-01").is_none());
    /// ```
    pub fn parse(text: &str) -> Option<Self> {
        let part = |from: usize, to: usize| text.get(from..to).filter(|part| part.bytes().all(is_hex));
        let id = |from: usize, to: usize| part(from, to).filter(|id| id.bytes().any(|digit| digit != b'0'));
        let dashes = text.len() == LENGTH && [2, 35, 52].iter().all(|dash| text.as_bytes()[*dash] == b'-');
        let valid =
            dashes && text.starts_with("00") && id(3, 35).is_some() && id(36, 52).is_some() && part(53, 55).is_some();
        valid.then(|| Self(text.into()))
    }

    /// The whole text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The id of the trace, as 32 hexadecimal digits.
    pub fn trace_id(&self) -> &str {
        &self.0[3..35]
    }

    /// The id of the span around the enqueue, as 16 hexadecimal digits.
    pub fn span_id(&self) -> &str {
        &self.0[36..52]
    }

    /// Whether the trace is recorded.
    pub fn is_sampled(&self) -> bool {
        u8::from_str_radix(&self.0[53..55], 16).is_ok_and(|flags| flags & 1 == 1)
    }
}

fn is_hex(byte: u8) -> bool {
    matches!(byte, b'0'..=b'9' | b'a'..=b'f')
}

impl fmt::Display for Traceparent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for Traceparent {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl fmt::Debug for Traceparent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// How the span of an attempt belongs to the trace of the enqueue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TraceRelation {
    /// It is a part of it: the first attempt of a job that was due at once.
    Child,
    /// It has a trace of its own, with a link: a retry, or a delayed job. A trace that lasts for days is of no use.
    Link,
}

/// Connects the span of an attempt with the trace of the enqueue.
pub type TraceLink = fn(&Span, &Traceparent, TraceRelation);

static SOURCE: OnceLock<fn() -> Option<String>> = OnceLock::new();
static LINK: OnceLock<TraceLink> = OnceLock::new();

/// Sets what returns the current `traceparent`. Each enqueue of this process stores it with its jobs. A text that is no
/// `traceparent` is dropped. Returns `false` if a source was set before; that one stays.
pub fn set_trace_source(source: fn() -> Option<String>) -> bool {
    SOURCE.set(source).is_ok()
}

/// Sets what connects the span of an attempt with the trace of the enqueue. Returns `false` if one was set before; that
/// one stays.
pub fn set_trace_link(link: TraceLink) -> bool {
    LINK.set(link).is_ok()
}

/// The current trace context, if there is a source.
#[inline]
pub(crate) fn current() -> Option<Traceparent> {
    SOURCE.get().and_then(|source| Traceparent::parse(&source()?))
}

/// Connects the span with the trace, if there is something that does.
pub(crate) fn link(span: &Span, traceparent: &Traceparent, relation: TraceRelation) {
    if let Some(link) = LINK.get() {
        link(span, traceparent, relation);
    }
}

/// Whether spans are connected, so that they need the names of the conventions.
pub(crate) fn is_linked() -> bool {
    LINK.get().is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn a_traceparent_has_parts() {
        let trace = Traceparent::parse(GOOD).unwrap();
        assert_eq!((trace.trace_id(), trace.span_id()), ("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"));
        assert!(trace.is_sampled());
        assert!(!Traceparent::parse(&GOOD.replace("-01", "-00")).unwrap().is_sampled());
    }

    #[test]
    fn any_other_text_is_refused() {
        for bad in [
            "",
            "00",
            &GOOD[..54],
            &format!("{GOOD}0"),
            &GOOD.replace("00-", "ff-"),
            &GOOD.replace('a', "A"),
            &GOOD.replace('-', "_"),
            &GOOD.replace("b7ad6b7169203331", "0000000000000000"),
            &GOOD.replace("0af7651916cd43dd8448eb211c80319c", "00000000000000000000000000000000"),
            &GOOD.replace("-01", "-0g"),
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-é",
            "éé-0af7651916cd43dd8448eb211c80319c-b7ad6b71692033-01",
        ] {
            assert!(Traceparent::parse(bad).is_none(), "{bad}");
        }
    }
}
