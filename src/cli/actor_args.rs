//! Who gives a command, and why: the options that all changes of settings share.

use clap::Args;

use super::app::App;
use super::exit::CliError;
use super::settings;

/// The option for who makes a change.
#[derive(Clone, Debug, Args)]
pub(super) struct Who {
    /// Who makes the change; the audit has this name [default: JOBS_ACTOR, or the user of this
    /// machine, or "an operator"]
    #[arg(long, value_name = "NAME")]
    actor: Option<String>,
}

/// The options of a pause.
#[derive(Clone, Debug, Args)]
pub(super) struct Pausing {
    /// Its name
    pub(super) name: String,
    /// The reason, in one line; commands and logs show it
    #[arg(long, value_name = "TEXT")]
    pub(super) reason: Option<String>,
    #[command(flatten)]
    pub(super) who: Who,
}

/// A name, and who changes what has it.
#[derive(Clone, Debug, Args)]
pub(super) struct Named {
    /// Its name
    pub(super) name: String,
    #[command(flatten)]
    pub(super) who: Who,
}

impl Who {
    /// The option, else JOBS_ACTOR, else the user's name, else "an operator".
    pub(super) fn name(&self, app: &App<'_>) -> Result<String, CliError> {
        settings::actor(self.actor.clone(), app.env)
    }
}
