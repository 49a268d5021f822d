//! Who gives a command, and why: the options that all changes of settings share.

use clap::Args;
use diesel_jobs_core::storage::UNNAMED_OPERATOR;

use super::app::App;
use super::exit::CliError;
use super::settings;

/// The option for who makes a change.
#[derive(Clone, Debug, Args)]
pub(super) struct Who {
    /// Who makes the change; the audit has this name [default: JOBS_ACTOR, else the user of this machine]
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
    /// The option, else JOBS_ACTOR, else the user's name.
    pub(super) fn name(&self, app: &App<'_>) -> Result<String, CliError> {
        settings::actor_or_user(self.actor.clone(), app.env)
    }

    /// The option, else the user's name, else [`UNNAMED_OPERATOR`].
    pub(super) fn name_if_known(&self, app: &App<'_>) -> Result<String, CliError> {
        let known = settings::actor_if_known(self.actor.clone(), app.env)?;
        Ok(known.unwrap_or_else(|| UNNAMED_OPERATOR.to_owned()))
    }
}
