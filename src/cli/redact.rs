//! The arguments of a job without the values of secret ones. Only programs that know the kind know which ones are
//! secret.

use diesel_jobs_core::secrets::redacted;
use diesel_jobs_core::{JobRecord, Registry};

/// What may be printed of arguments.
pub(super) struct Arguments {
    /// JSON text on one line. It is as stored if nothing is left out and it has no line break.
    pub(super) json: String,
    /// Whether values may be left out.
    pub(super) are_redacted: bool,
}

/// The arguments that may be printed.
pub(super) fn arguments(registry: &Registry, job: &JobRecord) -> Arguments {
    let secrets = registry.get(&job.kind).map_or(&[][..], |registration| registration.options.secrets);
    Arguments { json: compact(redacted(&job.args, secrets)), are_redacted: !secrets.is_empty() }
}

/// Leaves out the whitespace between the parts of a text with line breaks. A statement of the application may have
/// stored some, and what is exported or listed has one line for each job.
fn compact(json: String) -> String {
    if !json.contains(['\n', '\r']) {
        return json;
    }
    let is_space = |letter| matches!(letter, ' ' | '\t' | '\n' | '\r');
    let (mut in_string, mut is_escaped) = (false, false);
    let mut compact = json;
    compact.retain(|letter| {
        let keeps = in_string || !is_space(letter);
        in_string ^= letter == '"' && !is_escaped;
        is_escaped = in_string && letter == '\\' && !is_escaped;
        keeps
    });
    compact
}

#[cfg(test)]
mod tests {
    use super::compact;

    #[test]
    fn only_space_between_the_parts_is_left_out() {
        let of = |json: &str| compact(json.to_owned());
        assert_eq!(of("{\n\t\"a b\": [1e400,\r\n 2],\n \"c\": \"d \\\" e\"}"), r#"{"a b":[1e400,2],"c":"d \" e"}"#);
        assert_eq!(of("{\"path\":\"C:\\\\ x\\\\\",\n\"y\": 1}"), r#"{"path":"C:\\ x\\","y":1}"#);
        assert_eq!(of(r#"{"a": 1,  "b": 2}"#), r#"{"a": 1,  "b": 2}"#);
    }
}
