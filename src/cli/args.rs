//! The parsed command line. [`settings`](super::settings) adds the values from the environment, because an error in one
//! of them must name the variable.

use clap::Parser;

use super::command::Command;
use super::exit;
use super::global_args::GlobalArgs;
use super::run_args::RunArgs;

/// Runs background jobs, and manages them.
///
/// Without a command it runs the jobs of this program until it is asked to stop.
#[derive(Debug, Parser)]
#[command(name = "worker", max_term_width = 120, version = concat!("(diesel-jobs ", env!("CARGO_PKG_VERSION"), ")"), after_help = exit::HELP)]
pub(super) struct Cli {
    #[command(flatten)]
    pub(super) global: GlobalArgs,
    #[command(flatten)]
    pub(super) run: RunArgs,
    #[command(subcommand)]
    pub(super) command: Option<Command>,
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn options_of_run_need_no_command() {
        let cli = Cli::try_parse_from(["worker", "--queues", "mail=3", "--poll-interval", "200ms"]).unwrap();
        assert!(cli.command.is_none());
        assert_eq!(cli.run.poll_interval, Some(Duration::from_millis(200)));
        assert!(!cli.run.is_empty());
    }

    #[test]
    fn options_of_all_commands_stand_before_or_after_the_command() {
        for line in [["worker", "--json", "stats"], ["worker", "stats", "--json"]] {
            assert!(Cli::try_parse_from(line).unwrap().global.json);
        }
    }

    #[test]
    fn an_unknown_state_is_refused_with_the_list_of_states() {
        let error = Cli::try_parse_from(["worker", "list", "--state", "sleeping"]).unwrap_err().to_string();
        assert!(
            error.contains("available, scheduled, retrying, held, running, completed, cancelled, discarded"),
            "{error}"
        );
    }
}
