//! Checks the option `concurrency` against the arguments of the job.

use crate::errors::Errors;
use crate::nearest::nearest;
use crate::options::Options;

/// The limit of a kind.
pub(crate) struct Limit {
    /// The name: the one that is given, or that of the kind without its version.
    pub(crate) name: String,
    /// How many jobs may run at once.
    pub(crate) most: u32,
    /// The arguments whose values are the key.
    pub(crate) by: Vec<String>,
}

/// The limit that the options set. `kind` is the default kind. The values of the key are found by the names of the arguments in the
/// stored JSON object, and they are shown to operators.
pub(crate) fn checked(
    options: &Options,
    kind: String,
    arguments: &[String],
    secrets: &[String],
    errors: &mut Errors,
) -> Option<Limit> {
    let written = options.concurrency.as_ref()?;
    for argument in &written.by {
        let name = argument.to_string();
        if secrets.contains(&name) {
            errors.at(
                argument,
                format!("`{name}` is secret, and the key of a limit is shown: count by another argument"),
            );
        } else if !arguments.contains(&name) {
            let hint = match (nearest(&name, arguments.iter().map(String::as_str)), arguments) {
                (Some(near), _) => format!("did you mean `{near}`?"),
                (None, []) => "the job has no arguments that are stored under their own names".to_owned(),
                (None, arguments) => format!("the arguments are `{}`", arguments.join("`, `")),
            };
            errors.at(argument, format!("`by` names `{name}`, which is not an argument of this job; {hint}"));
        }
    }
    let own = options.kind.as_ref().map_or(kind, syn::LitStr::value);
    Some(Limit {
        name: written.name.as_ref().map_or(own, syn::LitStr::value),
        most: written.most,
        by: written.by.iter().map(ToString::to_string).collect(),
    })
}
