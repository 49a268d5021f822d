//! Logs go to standard error. Standard output contains only the answers of commands.

mod plain;

use clap::ValueEnum;
use tracing::{Level, Metadata, Subscriber};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::{Context, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer, fmt};

use self::plain::Plain;
use super::exit::CliError;
use super::standard_error::StandardError;

/// The format of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum LogFormat {
    /// For people; coloured on a terminal.
    Pretty,
    /// One JSON object a line, for log collectors.
    Json,
}

impl LogFormat {
    /// Parses the format's name, for the environment variable.
    pub(super) fn parse(word: &str) -> Result<Self, String> {
        Self::from_str(word, false).map_err(|_| format!("{word:?} is not a log format; write pretty or json"))
    }
}

/// Installs the subscriber. If the program has installed one already, that one stays. `directives` is the value of
/// RUST_LOG; without it, `default` is used.
pub(super) fn install(
    format: LogFormat,
    colours: bool,
    directives: Option<&str>,
    default: &str,
) -> Result<(), CliError> {
    let base = tracing_subscriber::registry().with(filter(directives.unwrap_or(default))?).with(HideParameters);
    let lines = fmt::layer().with_writer(|| StandardError);
    // An error means that the program has installed its own subscriber before. That one stays.
    let _ = match format {
        LogFormat::Pretty => base.with(lines.with_ansi(colours).fmt_fields(Plain)).try_init(),
        LogFormat::Json => base.with(lines.json().flatten_event(true)).try_init(),
    };
    Ok(())
}

/// Returns the filter for the directives. Directives about fields of spans need `EnvFilter`, which checks every span.
/// `Targets` is evaluated once per callsite.
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

/// Hides lines that must not appear with any directive. tokio-postgres logs the parameters of each statement, which
/// include the arguments of jobs. It logs through the crate `log`, so the lines reach programs that have
/// tracing-subscriber's feature `tracing-log`.
struct HideParameters;

impl<S: Subscriber> Layer<S> for HideParameters {
    fn enabled(&self, metadata: &Metadata<'_>, _: Context<'_, S>) -> bool {
        *metadata.level() <= Level::INFO || !metadata.target().starts_with("tokio_postgres")
    }
}
