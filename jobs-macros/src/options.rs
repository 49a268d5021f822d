//! Reads the options, and checks each value by itself. `validate` checks how they fit together.

mod aliases;
mod batch;
mod concurrency;
mod fair;
mod on_full;
mod other_words;
mod rate;
mod sequence;
mod unique;
mod values;

use std::collections::BTreeMap;
use std::time::Duration;

use proc_macro2::Span;
use syn::{ExprPath, Ident, LitStr, Type, TypePath};

use crate::attr::Entry;
use crate::errors::Errors;
use crate::nearest::nearest;
pub(crate) use batch::Batch;
pub(crate) use concurrency::Concurrency;
pub(crate) use on_full::OnFull;
pub(crate) use rate::Rate;
pub(crate) use sequence::{OnDiscard, Sequence};
pub(crate) use unique::{OnConflict, Unique};
use values::{
    backoff, catch_up, connection, every, expires, flag, max_attempts, on_discarded, priority, retain, stored_name,
    struct_name, text, timeout, upgrade, version,
};

/// The most bytes of a kind or a queue. `diesel_jobs_core` has the same limit at run time.
pub(crate) const MAX_NAME_BYTES: usize = 200;

const KNOWN: [&str; 26] = [
    "name",
    "kind",
    "aliases",
    "queue",
    "priority",
    "max_attempts",
    "timeout",
    "backoff",
    "retain",
    "cron",
    "every",
    "timezone",
    "catch_up",
    "blocking",
    "connection",
    "version",
    "upgrade",
    "on_discarded",
    "batch",
    "concurrency",
    "sequence",
    "rate",
    "fair",
    "unique",
    "debounce",
    "expires",
];

/// The parsed options. `None` stands for the default.
#[derive(Default)]
pub(crate) struct Options {
    pub(crate) name: Option<Ident>,
    pub(crate) kind: Option<LitStr>,
    /// The earlier names of the kind, the oldest first.
    pub(crate) aliases: Vec<LitStr>,
    pub(crate) queue: Option<LitStr>,
    pub(crate) priority: Option<i16>,
    pub(crate) max_attempts: Option<u16>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) backoff: Option<Backoff>,
    pub(crate) retain: Option<Retain>,
    pub(crate) cron: Option<LitStr>,
    /// The interval, as it is stored in place of a cron expression.
    pub(crate) every: Option<String>,
    pub(crate) timezone: Option<LitStr>,
    pub(crate) catch_up: Option<CatchUp>,
    /// Only for types. For functions, the signature decides it.
    pub(crate) blocking: bool,
    pub(crate) connection: Option<Type>,
    pub(crate) version: Option<u16>,
    /// The functions that turn arguments of a version into those of the next one, the oldest first.
    pub(crate) upgrade: Option<Vec<ExprPath>>,
    /// The job that is enqueued when a job of this kind is discarded.
    pub(crate) on_discarded: Option<TypePath>,
    /// The most jobs of one call. Only for types.
    pub(crate) batch: Option<Batch>,
    /// How many jobs may run at once.
    pub(crate) concurrency: Vec<(Span, Concurrency)>,
    /// The jobs run one after the other.
    pub(crate) sequence: Option<Sequence>,
    /// How many jobs may start in a period.
    pub(crate) rate: Vec<(Span, Rate)>,
    /// The arguments whose values are the tenant of a job.
    pub(crate) fair: Option<Vec<Ident>>,
    /// When an enqueue finds a job with the same key: `unique` or `debounce`.
    pub(crate) unique: Option<Unique>,
    /// The longest time from when a job is due to the start of its first attempt.
    pub(crate) expires: Option<Duration>,
    /// The span of each option.
    pub(crate) written: BTreeMap<String, Span>,
}

pub(crate) enum Backoff {
    Exponential { base: Duration, cap: Duration },
    Fixed { wait: Duration, jitter: Duration },
    Custom(ExprPath),
}

pub(crate) enum Retain {
    None,
    For(Duration),
    Forever,
}

#[derive(Clone, Copy)]
pub(crate) enum CatchUp {
    Skip,
    Last,
    All,
}

/// The macro that the options are for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target {
    Function,
    Type,
}

impl Options {
    /// The option that gives the job a schedule: `cron` or `every`.
    pub(crate) fn schedule(&self) -> Option<&'static str> {
        let cron = self.cron.as_ref().map(|_| "cron");
        cron.or(self.every.as_ref().map(|_| "every"))
    }

    pub(crate) fn read(entries: Vec<Entry>, target: Target, errors: &mut Errors) -> Self {
        let mut options = Self::default();
        for Entry { name, value } in entries {
            let word = name.to_string();
            let is_again = options.written.insert(word.clone(), name.span()).is_some();
            if is_again && !["concurrency", "rate"].contains(&word.as_str()) {
                errors.at(&name, format!("`{word}` is given twice"));
                continue;
            }
            let read = match word.as_str() {
                "name" if target == Target::Type => Err(syn::Error::new(
                    name.span(),
                    "`name` is for functions; a type keeps its own name, and `kind = \"...\"` sets the stored name",
                )),
                "blocking" if target == Target::Function => Err(syn::Error::new(
                    name.span(),
                    "`blocking` is for types; a function is blocking if it is a plain `fn` and not an `async fn`",
                )),
                "connection" if target == Target::Function => Err(syn::Error::new(
                    name.span(),
                    "a function takes the connection of its transaction as a parameter: `conn: &mut AsyncPgConnection`",
                )),
                "batch" if target == Target::Function => Err(syn::Error::new(
                    name.span(),
                    "`batch` is for types, because its handler takes several jobs at once: write a struct with `#[derive(Job)]` and \
                     `impl HandleBatch`",
                )),
                "batch" => batch::batch(&value).map(|v| options.batch = Some(v)),
                "blocking" => flag(&value).map(|v| options.blocking = v),
                "connection" => connection(value).map(|v| options.connection = Some(v)),
                "concurrency" => concurrency::concurrency(value).map(|v| options.concurrency.push((name.span(), v))),
                "sequence" => sequence::sequence(value).map(|v| options.sequence = Some(v)),
                "rate" => rate::rate(value).map(|v| options.rate.push((name.span(), v))),
                "fair" => fair::fair(value).map(|v| options.fair = Some(v)),
                "unique" | "debounce" if options.unique.is_some() => Err(syn::Error::new(
                    name.span(),
                    "a job is either `unique` or debounced; `debounce` is a form of `unique`",
                )),
                "unique" => unique::unique(value).map(|v| options.unique = Some(v)),
                "debounce" => unique::debounce(value).map(|v| options.unique = Some(v)),
                "version" => version(&value).map(|v| options.version = Some(v)),
                "upgrade" => upgrade(value).map(|v| options.upgrade = Some(v)),
                "on_discarded" => on_discarded(value).map(|v| options.on_discarded = Some(v)),
                "name" => struct_name(&value).map(|v| options.name = Some(v)),
                "kind" => stored_name(&word, &value).map(|v| options.kind = Some(v)),
                "aliases" => aliases::aliases(value).map(|v| options.aliases = v),
                "queue" => stored_name(&word, &value).map(|v| options.queue = Some(v)),
                "priority" => priority(&value).map(|v| options.priority = Some(v)),
                "max_attempts" => max_attempts(&value).map(|v| options.max_attempts = Some(v)),
                "expires" => expires(&value).map(|v| options.expires = Some(v)),
                "timeout" => timeout(&value).map(|v| options.timeout = Some(v)),
                "backoff" => backoff(value).map(|v| options.backoff = Some(v)),
                "retain" => retain(&value).map(|v| options.retain = Some(v)),
                "cron" => {
                    text(&value, "`cron` takes a string, such as \"0 0 2 * * *\"").map(|v| options.cron = Some(v))
                }
                "every" => every(&value).map(|v| options.every = Some(v)),
                "timezone" => text(&value, "`timezone` takes a string, such as \"Europe/Paris\"")
                    .map(|v| options.timezone = Some(v)),
                "catch_up" => catch_up(&value).map(|v| options.catch_up = Some(v)),
                _ => Err(unknown(&name, target)),
            };
            errors.keep(read);
        }
        options
    }
}

fn unknown(name: &Ident, target: Target) -> syn::Error {
    let elsewhere: &[&str] = if target == Target::Function { &["batch", "blocking", "connection"] } else { &["name"] };
    let known: Vec<&str> = KNOWN.into_iter().filter(|known| !elsewhere.contains(known)).collect();
    let word = name.to_string();
    let hint = match (other_words::translated(&word), nearest(&word, known.iter().copied())) {
        (Some(hint), _) => hint.to_owned(),
        (None, Some(near)) => format!("did you mean `{near}`?"),
        (None, None) => format!("the options are `{}`", known.join("`, `")),
    };
    syn::Error::new(name.span(), format!("unknown option `{name}`; {hint}"))
}
