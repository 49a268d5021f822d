//! The effective settings: the option, else the environment variable, else nothing. In the last case the program's
//! set-up function and the library's defaults apply. A variable with an empty value counts as unset.

use std::ffi::OsString;

use diesel_jobs_core::installation::{check_words, cleaned, has_credentials};
use diesel_jobs_core::storage::UNNAMED_OPERATOR;

use super::exit::CliError;
use super::global_args::GlobalArgs;
use super::logging::LogFormat;
use super::queues::QueueList;
use super::run_args::RunArgs;
use super::{duration, parse};

/// Looks up a variable, in the process's environment or in a test's.
pub(super) type Environment<'a> = &'a dyn Fn(&str) -> Option<OsString>;

/// The variable that names the database.
pub(super) const DATABASE_URL: &str = "DATABASE_URL";

/// The variable that names a file with the database's URL.
pub(super) const DATABASE_URL_FILE: &str = "DATABASE_URL_FILE";

/// Returns the format of log lines.
pub(super) fn log_format(args: &GlobalArgs, env: Environment<'_>) -> Result<LogFormat, CliError> {
    Ok(pick(args.log, env, "JOBS_LOG_FORMAT", LogFormat::parse)?.unwrap_or(LogFormat::Pretty))
}

/// Returns the directives that select log lines, from RUST_LOG.
pub(super) fn log_directives(env: Environment<'_>) -> Result<Option<String>, CliError> {
    variable(env, "RUST_LOG")
}

/// Names that somebody may expect a variable to have, and its real name. Ignoring them would change how a worker runs.
pub(super) const OTHER_NAMES: [(&str, &str); 3] =
    [("JOBS_CONCURRENCY", "JOBS_SLOTS"), ("JOBS_GRACE", "JOBS_GRACE_PERIOD"), ("JOBS_POLL", "JOBS_POLL_INTERVAL")];

/// Returns the worker's options, completed from the environment.
pub(super) fn run(args: &RunArgs, env: Environment<'_>) -> Result<RunArgs, CliError> {
    let RunArgs {
        queues,
        slots,
        slots_total,
        concurrency: _,
        connections,
        max_lifetime,
        poll_interval,
        grace_period,
        lease,
        timeout,
        max_crashes,
        keep_history,
        retain_completed,
        retain_cancelled,
        retain_discarded,
        environment,
        program_version,
        until_empty,
        listen,
    } = args;
    for (other, name) in OTHER_NAMES {
        if variable(env, other)?.is_some() {
            return Err(CliError::usage(format!("the variable {other} is called {name}; set {name} instead")));
        }
    }
    Ok(RunArgs {
        queues: pick(queues.clone(), env, "JOBS_QUEUES", QueueList::parse)?,
        slots: pick(*slots, env, "JOBS_SLOTS", parse::positive)?,
        slots_total: pick(*slots_total, env, "JOBS_SLOTS_TOTAL", parse::slots_total)?,
        concurrency: None,
        connections: pick(*connections, env, "JOBS_CONNECTIONS", parse::positive)?,
        max_lifetime: pick(*max_lifetime, env, "JOBS_MAX_LIFETIME", parse::lifetime)?,
        poll_interval: pick(*poll_interval, env, "JOBS_POLL_INTERVAL", duration::parse_positive)?,
        grace_period: pick(*grace_period, env, "JOBS_GRACE_PERIOD", duration::parse)?,
        lease: pick(*lease, env, "JOBS_LEASE", duration::parse_positive)?,
        timeout: pick(*timeout, env, "JOBS_TIMEOUT", duration::parse_positive)?,
        max_crashes: pick(*max_crashes, env, "JOBS_MAX_CRASHES", parse::crashes)?,
        keep_history: pick(*keep_history, env, "JOBS_KEEP_HISTORY", duration::parse_positive)?,
        retain_completed: pick(*retain_completed, env, "JOBS_RETAIN_COMPLETED", duration::parse)?,
        retain_cancelled: pick(*retain_cancelled, env, "JOBS_RETAIN_CANCELLED", duration::parse)?,
        retain_discarded: pick(*retain_discarded, env, "JOBS_RETAIN_DISCARDED", duration::parse)?,
        environment: pick(environment.clone(), env, "JOBS_ENVIRONMENT", parse::name)?,
        program_version: pick(program_version.clone(), env, "JOBS_VERSION", parse::version)?,
        until_empty: pick(until_empty.then_some(true), env, "JOBS_UNTIL_EMPTY", parse::truth)?.unwrap_or(false),
        listen: pick(listen.clone(), env, "JOBS_LISTEN", parse::address)?,
    })
}

/// The variables in which a system has the name of the user, the first one first. Under `sudo` the user who called it
/// counts.
const USER: [&str; 4] = ["SUDO_USER", "USER", "LOGNAME", "USERNAME"];

/// Returns who runs the command: the option, else JOBS_ACTOR, else the user of the machine. Nobody has chosen the name
/// of the user for the audit, and in a container there may be none: a command of an operator is not refused for that.
pub(super) fn actor(actor: Option<String>, env: Environment<'_>) -> Result<String, CliError> {
    let source = if actor.is_some() { "--actor" } else { "JOBS_ACTOR" };
    let user = || USER.into_iter().find_map(|name| cleaned(&env(name)?.to_string_lossy()));
    match pick(actor, env, "JOBS_ACTOR", |name| Ok(name.to_owned()))? {
        Some(name) => check_words("the actor", &name).map(|()| name).map_err(|problem| {
            CliError::usage(format!(
                "{source}: {problem}; give another name with --actor or in JOBS_ACTOR, or leave both out: then {} say who it is",
                USER.join(", ")
            ))
        }),
        None => Ok(user().unwrap_or_else(|| UNNAMED_OPERATOR.to_owned())),
    }
}

fn pick<T>(
    given: Option<T>,
    env: Environment<'_>,
    name: &str,
    read: impl FnOnce(&str) -> Result<T, String>,
) -> Result<Option<T>, CliError> {
    match given {
        Some(value) => Ok(Some(value)),
        None => variable(env, name)?
            .map(|text| match has_credentials(&text) {
                // What is wrong with a value, and what is stored of it, may repeat it.
                true => Err(format!("the value is a URL with a user or a password; set it as {DATABASE_URL} if it is that of the database")),
                false => read(&text),
            })
            .transpose()
            .map_err(|problem| CliError::usage(format!("{name}: {problem}"))),
    }
}

/// Returns the value of a variable. An empty one counts as unset.
pub(super) fn variable(env: Environment<'_>, name: &str) -> Result<Option<String>, CliError> {
    let Some(value) = env(name).filter(|value| !value.is_empty()) else { return Ok(None) };
    value.into_string().map(Some).map_err(|_| CliError::usage(format!("{name} does not hold valid UTF-8")))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::cli::exit::Exit;

    fn with(pairs: &[(&'static str, &'static str)]) -> impl Fn(&str) -> Option<OsString> + use<> {
        let pairs = pairs.to_vec();
        move |name| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| OsString::from(*value))
    }

    #[test]
    fn options_win_over_the_environment() {
        let env = with(&[
            ("JOBS_POLL_INTERVAL", "9s"),
            ("JOBS_GRACE_PERIOD", "1m"),
            ("JOBS_MAX_CRASHES", "5"),
            ("JOBS_QUEUES", "a=1"),
        ]);
        let given = RunArgs { poll_interval: Some(Duration::from_secs(2)), ..RunArgs::default() };
        let settings = run(&given, &env).unwrap();
        assert_eq!(settings.poll_interval, Some(Duration::from_secs(2)));
        assert_eq!(settings.grace_period, Some(Duration::from_secs(60)));
        assert_eq!(settings.max_crashes, Some(5));
        assert_eq!(settings.queues, QueueList::parse("a=1").ok());
        assert_eq!(settings.lease, None);
    }

    #[test]
    fn a_wrong_variable_is_named() {
        for (name, value) in [
            ("JOBS_QUEUES", "mail=0"),
            ("JOBS_SLOTS", "none"),
            ("JOBS_SLOTS_TOTAL", "0"),
            ("JOBS_SLOTS_TOTAL", "100001"),
            ("JOBS_CONNECTIONS", "0"),
            ("JOBS_MAX_LIFETIME", "999ms"),
            ("JOBS_POLL_INTERVAL", "30"),
            ("JOBS_GRACE_PERIOD", "soon"),
            ("JOBS_LEASE", "0s"),
            ("JOBS_TIMEOUT", "0s"),
            ("JOBS_MAX_CRASHES", "70000"),
            ("JOBS_KEEP_HISTORY", "30"),
            ("JOBS_ENVIRONMENT", " "),
            ("JOBS_VERSION", " "),
            ("JOBS_LISTEN", ":9464"),
            ("JOBS_LISTEN", "localhost"),
            ("JOBS_LISTEN", "localhost:70000"),
        ] {
            let error = run(&RunArgs::default(), &with(&[(name, value)])).unwrap_err();
            assert_eq!(error.exit, Exit::Usage);
            assert!(error.to_string().starts_with(&format!("{name}: \"{value}\"")), "{error}");
        }
    }

    #[test]
    fn a_url_in_another_variable_is_not_repeated() {
        for url in ["postgres://me:s3cret@h/x", "\"postgres://me:s3cret@h/x\"", "postgres://h/x?password=s3cret"] {
            for name in
                ["JOBS_QUEUES", "JOBS_SLOTS", "JOBS_LEASE", "JOBS_ENVIRONMENT", "JOBS_VERSION", "JOBS_UNTIL_EMPTY"]
            {
                let error = run(&RunArgs::default(), &with(&[(name, url)])).unwrap_err().to_string();
                assert!(error.starts_with(&format!("{name}: the value is a URL")), "{error}");
                assert!(!error.contains("s3cret"), "{error}");
            }
        }
    }

    #[test]
    fn the_option_wins_over_jobs_actor_and_that_over_the_user() {
        let env = with(&[("USER", "root"), ("JOBS_ACTOR", "anna")]);
        assert_eq!(actor(Some("bert".to_owned()), &env).unwrap(), "bert");
        assert_eq!(actor(None, &env).unwrap(), "anna");
        assert_eq!(actor(None, &with(&[("USER", "root"), ("SUDO_USER", "cleo")])).unwrap(), "cleo");
        assert_eq!(actor(None, &with(&[("JOBS_ACTOR", "")])).unwrap(), "an operator");
    }

    #[test]
    fn the_name_of_the_user_is_cleaned_and_a_chosen_one_is_checked() {
        for (name, shown) in [
            ("an\u{1b}[2Jna\n", "an[2Jna"),
            (&*"x".repeat(600), &*"x".repeat(500)),
            (" \t", "an operator"),
            ("\u{7}", "an operator"),
        ] {
            let env = |variable: &str| (variable == "USER").then(|| OsString::from(name));
            assert_eq!(actor(None, &env).unwrap(), shown, "{name:?}");
        }
        assert_eq!(actor(None, &with(&[("USER", "\n"), ("LOGNAME", "anna")])).unwrap(), "anna");
        for (option, variable, source) in
            [(Some("a\nb"), "", "--actor"), (Some(""), "anna", "--actor"), (None, "a\u{7}", "JOBS_ACTOR")]
        {
            let env = move |name: &str| (name == "JOBS_ACTOR").then(|| OsString::from(variable));
            let error = actor(option.map(str::to_owned), &env).unwrap_err();
            let text = error.to_string();
            assert!(error.exit == Exit::Usage && text.starts_with(&format!("{source}: the actor must")), "{text}");
            assert!(text.contains("--actor or in JOBS_ACTOR") && text.contains("SUDO_USER, USER, LOGNAME"), "{text}");
        }
    }

    #[test]
    fn a_variable_set_to_nothing_is_unset() {
        assert!(run(&RunArgs::default(), &with(&[("JOBS_POLL_INTERVAL", "")])).unwrap().is_empty());
    }
}
