//! An example for each command, and for each action of a command. They are valid command lines, which a test checks.

/// The commands that every program has.
pub(super) const OF_COMMANDS: &[(&str, &str)] = &[
    ("run", "worker run --queues mail=10,default=50"),
    ("migrate", "worker migrate status"),
    ("migrations", "worker migrations copy migrations"),
    ("stats", "worker stats"),
    ("top", "worker top --interval 1s"),
    ("tail", "worker tail --kind charge --state discarded"),
    ("list", "worker list --state discarded --kind charge --error timeout"),
    ("show", "worker show 42"),
    ("why", "worker why 42"),
    ("failures", "worker failures --kind charge"),
    ("doctor", "worker doctor --before-deploy"),
    ("retry", "worker retry --state discarded --kind charge --dry-run"),
    ("run-now", "worker run-now --state scheduled --queue reports"),
    ("reschedule", "worker reschedule --in 2h --kind charge --state retrying"),
    ("cancel", "worker cancel --kind send_newsletter --older-than 2h --yes"),
    ("discard", "worker discard --kind charge --state retrying"),
    ("delete", "worker delete --state completed --finished-before 7d"),
    ("move", "worker move --to slow --kind export_archive"),
    ("reprioritise", "worker reprioritise --to 10 --tag vip"),
    ("rerun", "worker rerun --state completed --kind invoice --finished-after 1d"),
    ("release-permit", "worker release-permit 42"),
    ("release-key", "worker release-key 42"),
    ("operations", "worker operations resume 7"),
    ("audit", "worker audit --limit 50"),
    ("enqueue", "worker enqueue charge '{\"order_id\":7}' --in 10m"),
    ("export", "worker export --state discarded > discarded.jsonl"),
    ("import", "worker import discarded.jsonl --others enqueue"),
    ("queues", "worker queues pause mail --reason \"the mail server is down\""),
    ("kinds", "worker kinds pause charge --reason \"the bank is closed\""),
    ("limits", "worker limits set stripe 2 --reason \"the bank is slow\""),
    ("sequences", "worker sequences skip orders '[7]'"),
    ("workers", "worker workers show 018f4c1e"),
    ("schedules", "worker schedules pause nightly_report"),
    ("retention", "worker retention set discarded 7d --kind charge"),
    ("freeze", "worker freeze --reason \"a restore is checked\""),
    ("thaw", "worker thaw"),
    ("environment", "worker environment set production"),
    ("completions", "worker completions bash > /etc/bash_completion.d/worker"),
    ("man", "worker man > /usr/local/share/man/man1/worker.1"),
];

/// Commands that not every program has.
pub(super) const FURTHER: &[(&str, &str)] =
    &[("dashboard", "worker dashboard --listen 127.0.0.1:8080"), ("bench", "worker bench --time 30s")];

/// The actions of commands: the command, the action, the example.
pub(super) const OF_ACTIONS: &[(&str, &str, &str)] = &[
    ("migrate", "up", "worker migrate up"),
    ("migrate", "down", "worker migrate down"),
    ("migrate", "status", "worker migrate status"),
    ("migrate", "sql", "worker migrate sql --backend postgres > schema.sql"),
    ("migrate", "roles", "worker migrate roles > roles.sql"),
    ("migrations", "copy", "worker migrations copy migrations"),
    ("failures", "retry", "worker failures retry 4217781 --kind charge"),
    ("failures", "discard", "worker failures discard 4217781 --kind charge --dry-run"),
    ("operations", "show", "worker operations show 7"),
    ("operations", "resume", "worker operations resume 7"),
    ("operations", "cancel", "worker operations cancel 7"),
    ("queues", "list", "worker queues list"),
    ("queues", "pause", "worker queues pause mail --reason \"the mail server is down\""),
    ("queues", "resume", "worker queues resume mail"),
    ("queues", "slots", "worker queues slots mail 4"),
    ("queues", "drain", "worker queues drain mail --timeout 10m"),
    ("queues", "purge", "worker queues purge mail --dry-run"),
    ("kinds", "list", "worker kinds list"),
    ("kinds", "pause", "worker kinds pause charge --reason \"the bank is closed\""),
    ("kinds", "resume", "worker kinds resume charge"),
    ("workers", "list", "worker workers list"),
    ("workers", "show", "worker workers show 018f4c1e"),
    ("workers", "quiet", "worker workers quiet 018f4c1e"),
    ("workers", "stop", "worker workers stop 018f4c1e"),
    ("retention", "list", "worker retention list"),
    ("retention", "set", "worker retention set discarded 7d --kind charge"),
    ("retention", "unset", "worker retention unset discarded --kind charge"),
    ("schedules", "list", "worker schedules list"),
    ("schedules", "show", "worker schedules show nightly_report"),
    ("schedules", "add", "worker schedules add at_noon report --cron \"0 0 12 * * *\" --timezone Europe/Paris"),
    ("schedules", "change", "worker schedules change nightly_report --cron \"0 30 2 * * *\""),
    ("schedules", "pause", "worker schedules pause nightly_report --reason \"the tax office is closed\""),
    ("schedules", "resume", "worker schedules resume nightly_report"),
    ("schedules", "trigger", "worker schedules trigger nightly_report"),
    ("schedules", "backfill", "worker schedules backfill nightly_report --from 2026-01-01 --to 2026-01-07 --dry-run"),
    ("schedules", "remove", "worker schedules remove at_noon"),
    ("schedules", "reset", "worker schedules reset nightly_report"),
    ("limits", "list", "worker limits list"),
    ("limits", "set", "worker limits set stripe 2 --reason \"the bank is slow\""),
    ("limits", "reset", "worker limits reset stripe"),
    ("sequences", "list", "worker sequences list"),
    ("sequences", "skip", "worker sequences skip orders '[7]'"),
    ("environment", "show", "worker environment show"),
    ("environment", "set", "worker environment set staging --cancel-jobs"),
    ("environment", "unset", "worker environment unset"),
];

/// The example of a command.
pub(super) fn of(command: &str) -> Option<&'static str> {
    OF_COMMANDS.iter().chain(FURTHER).find(|(name, _)| *name == command).map(|(_, example)| *example)
}

/// The example of an action of a command.
pub(super) fn of_action(command: &str, action: &str) -> Option<&'static str> {
    let found = OF_ACTIONS.iter().find(|(of, name, _)| *of == command && *name == action);
    found.map(|(.., example)| *example)
}
