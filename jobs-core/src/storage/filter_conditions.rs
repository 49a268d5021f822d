//! The conditions of a filter in its textual form, for errors and for help.

/// A condition of a filter, as people write it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Condition {
    /// What stands before the colon.
    pub name: &'static str,
    /// A whole condition.
    pub example: &'static str,
    /// Which jobs it finds.
    pub meaning: &'static str,
}

const fn condition(name: &'static str, example: &'static str, meaning: &'static str) -> Condition {
    Condition { name, example, meaning }
}

/// All conditions that the textual form of [`JobFilter`](super::JobFilter) has.
pub const CONDITIONS: [Condition; 16] = [
    condition("id", "id:7,8", "these jobs"),
    condition("state", "state:discarded,retrying", "in one of these states"),
    condition("kind", "kind:charge,refund", "of one of these kinds"),
    condition("queue", "queue:mail", "in one of these queues"),
    condition("tag", "tag:vip", "with all of these tags"),
    condition("priority", "priority:5", "with this priority"),
    condition("error", "error:\"no answer\"", "the newest failure contains this text"),
    condition("fingerprint", "fingerprint:-42", "the newest failure is of this group of failures"),
    condition(
        "worker",
        "worker:018f4c1e-0000-7000-8000-000000000001",
        "the newest attempt is or was of this worker; its whole id",
    ),
    condition("enqueued_before", "enqueued_before:2h", "enqueued before a time, or longer ago than this"),
    condition("enqueued_after", "enqueued_after:1d", "enqueued after a time, or since then"),
    condition("run_at_before", "run_at_before:2026-01-31T08:00:00Z", "with a run time before this"),
    condition("run_at_after", "run_at_after:10m", "with a run time after this"),
    condition("finished_before", "finished_before:1h", "ended before this"),
    condition("finished_after", "finished_after:1d", "ended after this"),
    condition(
        "args.PATH",
        "args.user.id:7",
        "with this value in the arguments; a number is also a place in a list, from 0",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::JobFilter;

    #[test]
    fn each_example_is_read_as_one_condition_of_its_name() {
        for Condition { name, example, .. } in CONDITIONS {
            let filter: JobFilter = example.parse().unwrap();
            assert_eq!(filter.to_string(), example);
            let stem = name.trim_end_matches("PATH");
            assert!(example.starts_with(stem), "{example}");
        }
    }
}
