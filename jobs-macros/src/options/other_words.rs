//! The words of other job systems. Whoever comes from one of them writes its word at first, and no letters of it may be
//! those of ours.

/// Says what to write instead of a word of another job system.
pub(super) fn translated(word: &str) -> Option<&'static str> {
    Some(match word {
        "attempts" | "max_retries" | "max_tries" | "retries" | "retry" | "retry_limit" | "tries" => {
            "did you mean `max_attempts`, which counts the first attempt, too?"
        }
        "backoff_strategy" | "default_retry_delay" | "retry_backoff" | "retry_delay" | "retry_in" => {
            "did you mean `backoff`, such as \"exponential(2s, 1h)\"?"
        }
        "countdown" | "delay" | "eta" | "perform_in" | "run_at" | "run_in" | "schedule_in" | "scheduled_at"
        | "wait" => "you set the time where you enqueue the job: `.delay(Duration::from_secs(60))` or `.run_at(time)`",
        "crontab" | "recurring" | "repeat" | "schedule" => {
            "did you mean `cron`, such as \"0 2 * * *\", or `every`, such as \"90m\"?"
        }
        "interval" | "period" | "run_every" => "did you mean `every`, such as \"90m\"?",
        "tz" => "did you mean `timezone`, such as \"Europe/Paris\"?",
        "execution_timeout" | "hard_time_limit" | "max_run_time" | "max_runtime" | "soft_time_limit" | "time_limit" => {
            "did you mean `timeout`, such as \"30s\"?"
        }
        "limiter" | "rate_limit" | "throttle" => "did you mean `rate`, such as `rate(limit = 100, per = \"1m\")`?",
        "concurrency_limit" | "global_limit" | "limit" | "limits_concurrency" | "max_concurrency" | "parallelism" => {
            "did you mean `concurrency`, such as `concurrency(limit = 5)`?"
        }
        "dedup" | "deduplicate" | "deduplication" | "job_key" | "lock" | "queueing_lock" | "singleton"
        | "unique_for" | "unique_key" | "uniqueness" => "did you mean `unique`, such as `unique(by(user_id))`?",
        "fifo" | "message_group" | "ordered" | "ordering_key" | "serial" => {
            "did you mean `sequence`, such as `sequence(by(order_id))`?"
        }
        "expiration" | "expires_at" | "expires_in" | "ttl" => "did you mean `expires`, such as \"10m\"?",
        "keep" | "keep_result" | "remove_on_complete" | "result_ttl" | "retention" => {
            "did you mean `retain`, such as \"7d\"?"
        }
        "dead_letter" | "dead_letter_queue" | "dlq" | "on_dead" | "on_failure" | "retries_exhausted" => {
            "did you mean `on_discarded`, such as `on_discarded = AlertOps`?"
        }
        "labels" | "tag" | "tags" => "you set tags where you enqueue the job: `.tags([\"vip\"])`",
        "channel" | "topic" => "did you mean `queue`?",
        "job_type" | "rename" | "task" | "task_name" | "type" => "did you mean `kind`?",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::super::KNOWN;
    use super::translated;

    #[test]
    fn each_word_leads_to_an_option_or_to_the_enqueue() {
        for word in ["max_retries", "retry", "delay", "schedule", "tz", "rate_limit", "ttl", "dlq", "tags", "task"] {
            let hint = translated(word).unwrap_or_else(|| panic!("{word} is not translated"));
            let option = hint.strip_prefix("did you mean `").and_then(|rest| rest.split('`').next());
            assert!(option.map_or(hint.contains("`."), |option| KNOWN.contains(&option)), "{word}: {hint}");
        }
    }

    #[test]
    fn an_option_of_ours_is_no_word_of_others() {
        for option in KNOWN {
            assert_eq!(translated(option), None, "{option}");
        }
    }
}
