//! Logs on standard error, so that standard output holds nothing but answers.

use std::fmt::{self, Debug};
use std::io::{self, IsTerminal};

use clap::ValueEnum;
use tracing::field::Field;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::field::MakeExt as _;
use tracing_subscriber::fmt::format::{self, Writer};
use tracing_subscriber::util::SubscriberInitExt as _;

use super::exit::CliError;

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
        LogFormat::Pretty if io::stderr().is_terminal() => builder.finish().try_init(),
        LogFormat::Pretty => {
            builder.with_ansi(false).fmt_fields(format::debug_fn(plain).delimited(" ")).finish().try_init()
        }
        LogFormat::Json => builder.json().flatten_event(true).finish().try_init(),
    };
    Ok(())
}

/// Writes a field without the steps that colours need: each job has a span with five, written before its handler starts.
fn plain(writer: &mut Writer<'_>, field: &Field, value: &dyn Debug) -> fmt::Result {
    match field.name() {
        "message" => write!(writer, "{value:?}"),
        name => write!(writer, "{name}={value:?}"),
    }
}
