//! Why a job cannot run in a test. The checks are those of a worker, and the advice is for the test.

use diesel_jobs_core::RegistryError;

/// Returns what the job needs and how the test gives it.
pub(super) fn explain(problem: &RegistryError) -> String {
    match problem {
        RegistryError::MissingState { kind, location, state, given, near } => {
            let advice = near.clone().unwrap_or_else(|| {
                format!(
                    "give it with `.state(..)`, such as `drain(&mut conn).state(value).run()` or `perform(job).state(value)`, as exactly \
                     the type {state}; or add a layer that names it in `provides`"
                )
            });
            format!("job `{kind}` ({location}) takes State<{state}>, which this test does not give ({given}); {advice}")
        }
        RegistryError::WrongConnection { kind, location, connection, .. } => format!(
            "job `{kind}` ({location}) asks for a `{connection}`, and this connection of the test is of another type; open such a \
             connection in the test, or change the parameter"
        ),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_state_is_given_to_the_drain() {
        let missing = |near: Option<&str>| RegistryError::MissingState {
            kind: "mail",
            location: "src/mail.rs:7",
            state: "app::Mailer",
            given: "it was given u8".to_owned(),
            near: near.map(str::to_owned),
        };
        let text = explain(&missing(None));
        assert!(text.contains("`drain(&mut conn).state(value).run()`") && !text.contains("worker"), "{text}");
        let text = explain(&missing(Some("take State<Arc<Mailer>> instead")));
        assert!(text.ends_with("; take State<Arc<Mailer>> instead"), "{text}");
    }
}
