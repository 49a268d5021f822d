//! A part of the statements that discard jobs: it enqueues what the rules of their kinds say, in the same statement.

/// The common table expression `followed`. It reads the discarded jobs from `gone`: their columns, `failure_kind` and
/// `message`. The statement must read it, because a `select` that nothing reads is not executed.
///
/// The names in the JSON object are the fields of `Discarded`. The object is put into the text of the other arguments,
/// which is compact and ends with a brace. `jsonb` would refuse `\u0000` in them, and write long numbers out.
pub(super) const FOLLOWED: &str = "followed as (
    select jobs.enqueue(
        kind => rule.enqueues,
        args => (left(rule.args::text, -1) || case rule.args::text when '{}' then '' else ',' end || to_json(rule.argument) || ':' || json_build_object(
            'id', gone.id, 'kind', gone.kind, 'queue', gone.queue, 'attempt', gone.attempt, 'max_attempts', gone.max_attempts,
            'failure', gone.failure_kind, 'error', gone.message
        ) || '}')::json,
        queue => rule.queue, priority => rule.priority, max_attempts => rule.max_attempts
    )
    from jobs.on_discarded rule join gone on gone.kind = rule.kind
)";
