//! The options of `top`.

use std::time::Duration;

use clap::Args;

use crate::cli::duration;

#[derive(Debug, Args)]
pub(in crate::cli) struct TopArgs {
    /// How often the database is read, such as 500ms
    #[arg(long, short, value_name = "DURATION", default_value = "2s", value_parser = duration::parse_positive)]
    pub(in crate::cli) interval: Duration,
    /// Use no colours; the variable NO_COLOR does the same
    #[arg(long)]
    pub(in crate::cli) no_color: bool,
    /// Who pauses queues with the key `p` [default: JOBS_ACTOR, or the user of this machine]
    #[arg(long, value_name = "NAME")]
    pub(in crate::cli) actor: Option<String>,
}
