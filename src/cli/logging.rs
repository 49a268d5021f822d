//! Logs on standard error, so that standard output holds nothing but answers.

mod plain;

use std::io;

use clap::ValueEnum;
use tracing::{Level, Metadata, Subscriber};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::{Context, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer, fmt};

use self::plain::Plain;
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
pub(super) fn install(
    format: LogFormat,
    colours: bool,
    directives: Option<&str>,
    default: &str,
) -> Result<(), CliError> {
    let base = tracing_subscriber::registry().with(filter(directives.unwrap_or(default))?).with(Discretion);
    let lines = fmt::layer().with_writer(io::stderr);
    // An error means that the program installed a subscriber of its own before it called us: that one stays.
    let _ = match format {
        LogFormat::Pretty if colours => base.with(lines).try_init(),
        LogFormat::Pretty => base.with(lines.with_ansi(false).fmt_fields(Plain)).try_init(),
        LogFormat::Json => base.with(lines.json().flatten_event(true)).try_init(),
    };
    Ok(())
}

/// Directives that ask for the fields of spans need a filter that looks at every span; others are settled once per place
/// that logs.
fn filter<S: Subscriber>(directives: &str) -> Result<Box<dyn Layer<S> + Send + Sync>, CliError> {
    if !directives.contains(['[', '{'])
        && !directives.trim().is_empty()
        && let Ok(targets) = directives.parse::<Targets>()
    {
        return Ok(targets.boxed());
    }
    EnvFilter::try_new(directives)
        .map(Layer::boxed)
        .map_err(|error| CliError::usage(format!("RUST_LOG: {error}; write a level such as info, or target=level,..")))
}

/// Keeps out what no directive may ask for: tokio-postgres tells the parameters of each statement, among them the arguments
/// of jobs. It does so through the crate `log`, which is heard in programs that have tracing-subscriber's feature `tracing-log`.
struct Discretion;

impl<S: Subscriber> Layer<S> for Discretion {
    fn enabled(&self, metadata: &Metadata<'_>, _: Context<'_, S>) -> bool {
        *metadata.level() <= Level::INFO || !metadata.target().starts_with("tokio_postgres")
    }
}
