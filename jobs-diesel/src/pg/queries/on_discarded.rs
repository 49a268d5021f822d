//! A part of the statements that discard jobs: it enqueues what the rules of their kinds say, in the same statement.

/// The common table expression `followed`. It reads the discarded jobs from `gone`: their columns, `failure_kind` and
/// `message`. The statement must read it, because a `select` that nothing reads is not executed.
///
/// The names in the JSON object are the fields of `Discarded`.
pub(super) const FOLLOWED: &str = "followed as (
    select jobs.enqueue_for_discarded(rule, gone.id, gone.attempt, json_build_object(
        'id', gone.id, 'kind', gone.kind, 'queue', gone.queue, 'attempt', gone.attempt, 'max_attempts', gone.max_attempts,
        'failure', gone.failure_kind, 'error', gone.message
    ))
    from jobs.on_discarded rule join gone on gone.kind = rule.kind
)";
