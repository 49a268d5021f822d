//! The arguments of a job without the values of secret ones. Only programs that know the kind know which ones are
//! secret.

use diesel_jobs_core::secrets::redacted;
use diesel_jobs_core::{JobRecord, Registry};

/// What may be printed of arguments.
pub(super) struct Arguments {
    /// JSON text. It is as stored if nothing is left out.
    pub(super) json: String,
    /// Whether values may be left out.
    pub(super) are_redacted: bool,
}

/// The arguments that may be printed.
pub(super) fn arguments(registry: &Registry, job: &JobRecord) -> Arguments {
    let secrets = registry.get(&job.kind).map_or(&[][..], |registration| registration.options.secrets);
    Arguments { json: redacted(&job.args, secrets), are_redacted: !secrets.is_empty() }
}
