//! Logs on standard error, so that standard output holds nothing but answers.

use std::fmt::{self, Debug};
use std::io::{self, IsTerminal};

use clap::ValueEnum;
use tracing::field::Field;
use tracing::{Level, Metadata, Subscriber};
use tracing_subscriber::field::MakeExt as _;
use tracing_subscriber::fmt::format::{self, Writer};
use tracing_subscriber::layer::{Context, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer};

use super::exit::CliError;
use super::output::printable;

/// How log lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum LogFormat {
    /// For people; coloured on a terminal.
    Pretty,
    /// One JSON object a line, for log collectors.
    Json,
}

impl LogFormat {
    /// Reads the format's name, for the environment variable.
    pub(super) fn parse(word: &str) -> Result<Self, String> {
        Self::from_str(word, false).map_err(|_| format!("{word:?} is not a log format; write pretty or json"))
    }
}

/// Installs the subscriber, unless the program has one already. `directives` is RUST_LOG's; without it, `default`.
pub(super) fn install(format: LogFormat, directives: Option<&str>, default: &str) -> Result<(), CliError> {
    let filter = EnvFilter::try_new(directives.unwrap_or(default)).map_err(|error| {
        CliError::usage(format!("RUST_LOG: {error}; write a level such as info, or target=level,.."))
    })?;
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr);
    // An error means that the program installed a subscriber of its own before it called us: that one stays.
    let _ = match format {
        LogFormat::Pretty if io::stderr().is_terminal() => builder.finish().with(Discretion).try_init(),
        LogFormat::Pretty => {
            let fields = format::debug_fn(plain).delimited(" ");
            builder.with_ansi(false).fmt_fields(fields).finish().with(Discretion).try_init()
        }
        LogFormat::Json => builder.json().flatten_event(true).finish().with(Discretion).try_init(),
    };
    Ok(())
}

/// Keeps out what no directive may ask for: tokio-postgres tells the parameters of each statement, among them the arguments
/// of jobs. It does so through the crate `log`, which is heard in programs that have tracing-subscriber's feature `tracing-log`.
struct Discretion;

impl<S: Subscriber> Layer<S> for Discretion {
    fn enabled(&self, metadata: &Metadata<'_>, _: Context<'_, S>) -> bool {
        *metadata.level() <= Level::INFO || !metadata.target().starts_with("tokio_postgres")
    }
}

/// Writes a field without the steps that colours need: each job has a span with five, written before its handler starts.
/// A message may hold what somebody else wrote, such as the error of a handler: it must not look like a line of its own.
fn plain(writer: &mut Writer<'_>, field: &Field, value: &dyn Debug) -> fmt::Result {
    match field.name() {
        "message" => match format!("{value:?}") {
            text if text.contains(char::is_control) => writer.write_str(&printable(&text)),
            text => writer.write_str(&text),
        },
        name => write!(writer, "{name}={value:?}"),
    }
}
