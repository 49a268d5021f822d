//! The options of the attribute are those of the registration.

use std::time::Duration;

use diesel_jobs::enqueue::IntoNewJob;
use diesel_jobs::handler::{Backoff, Registered, Retain};
use diesel_jobs::schedule::CatchUp;
use diesel_jobs::worker::Registry;
use diesel_jobs::{Job, job};

#[job]
fn plain() {}

#[test]
fn without_options_everything_is_the_default() {
    let options = Plain::OPTIONS;
    assert_eq!((Plain::KIND, options.queue, options.priority, options.max_attempts), ("plain", "default", 0, 25));
    assert_eq!((options.timeout, options.retain), (None, Retain::Default));
    assert!(matches!(options.backoff, Backoff::Exponential { .. }));
    assert!(Plain::REGISTRATION.schedule.is_none());
}

#[job(
    name = "Renamed",
    kind = "stored.under/this",
    queue = "mail",
    priority = -32768,
    max_attempts = 32767,
    timeout = "1h 30m",
    backoff = "fixed(500ms)",
    retain = "7d"
)]
fn with_options() {}

#[test]
fn each_option_reaches_the_registration_and_the_enqueued_job() {
    let options = Renamed::REGISTRATION.options;
    assert_eq!((Renamed::KIND, Renamed::REGISTRATION.kind), ("stored.under/this", "stored.under/this"));
    assert_eq!((options.queue, options.priority, options.max_attempts), ("mail", i16::MIN, 32767));
    assert_eq!(options.timeout, Some(Duration::from_secs(5400)));
    assert_eq!(options.retain, Retain::For(Duration::from_secs(7 * 24 * 3600)));
    assert_eq!(options.backoff.wait(1, 0.5), Duration::from_millis(500));
    let job = Renamed.into_new_job().unwrap();
    assert_eq!(
        (&*job.kind, &*job.queue, job.priority, job.max_attempts),
        ("stored.under/this", "mail", i16::MIN, 32767)
    );
}

mod backoffs {
    use std::time::Duration;

    pub(crate) fn tenfold(attempt: u16) -> Duration {
        Duration::from_secs(u64::from(attempt) * 10)
    }
}

#[job(backoff = backoffs::tenfold, retain = "none")]
fn with_a_function() {}

#[job(backoff = "fixed( 30s , jitter = 10s )")]
fn with_jitter() {}

#[job(backoff = "exponential( 2s , 1h )", retain = "forever")]
fn with_a_ceiling() {}

#[test]
fn backoffs_of_every_form() {
    assert_eq!(WithAFunction::OPTIONS.backoff.wait(3, 0.0), Duration::from_secs(30));
    assert_eq!([0.0, 0.5].map(|jitter| WithJitter::OPTIONS.backoff.wait(3, jitter).as_secs()), [30, 35]);
    assert_eq!(WithACeiling::OPTIONS.backoff.wait(2, 1.0), Duration::from_secs(4));
    assert_eq!(WithACeiling::OPTIONS.backoff.wait(99, 1.0), Duration::from_secs(3600));
    assert_eq!((WithAFunction::OPTIONS.retain, WithACeiling::OPTIONS.retain), (Retain::None, Retain::Forever));
}

#[job(cron = "0 0 2 * * *", timezone = "Europe/Paris", catch_up = "last")]
fn nightly() {}

#[job(cron = "*/5 * * * *")]
fn every_five_minutes() {}

#[test]
fn schedules_reach_the_registration() {
    let nightly = Nightly::REGISTRATION.schedule.unwrap();
    assert_eq!(
        (nightly.expression, nightly.timezone, nightly.catch_up),
        ("0 0 2 * * *", "Europe/Paris", CatchUp::Last)
    );
    let often = EveryFiveMinutes::REGISTRATION.schedule.unwrap();
    assert_eq!((often.expression, often.timezone, often.catch_up), ("*/5 * * * *", "UTC", CatchUp::Skip));
}

#[test]
fn a_registration_says_where_it_was_written() {
    let registration = Plain::REGISTRATION;
    assert_eq!(registration.type_name, "macros::options::Plain");
    let (file, line) = registration.location.rsplit_once(':').unwrap();
    let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    let source = std::fs::read_to_string(file).unwrap();
    let at: usize = line.parse().unwrap();
    assert_eq!(source.lines().skip(at - 1).take(2).collect::<Vec<_>>(), ["#[job]", "fn plain() {}"]);
}

#[test]
fn every_job_of_the_program_is_registered_once() {
    let linked = Registry::linked();
    for kind in ["plain", "stored.under/this", "nightly", "every_form", "asynchronous", "send_welcome"] {
        assert!(linked.get(kind).is_some(), "{kind} is not registered");
    }
    linked
        .check(&diesel_jobs_core::States::default(), |_| true, "none")
        .expect_err("a job takes a state that is not given");
    assert!(linked.get("with_options").is_none(), "`kind` replaces the function's name");
}

#[job(kind = "greet", aliases("hail", "send_welcome"), concurrency(limit = 2, by(user_id)), unique(by(user_id)))]
fn with_aliases(user_id: i64) {
    let _ = user_id;
}

#[derive(Debug, PartialEq, serde::Serialize, serde::Deserialize, Job)]
#[job(aliases("before"), cron = "@daily")]
struct Derived;

impl diesel_jobs::handler::Handle for Derived {
    async fn handle(self, _: diesel_jobs::JobContext) -> Result<diesel_jobs::Outcome, diesel_jobs::JobError> {
        Ok(diesel_jobs::Outcome::Complete)
    }
}

#[test]
fn what_programs_share_has_the_oldest_name() {
    let registration = WithAliases::REGISTRATION;
    assert_eq!((registration.kind, registration.options.aliases), ("greet", &["hail", "send_welcome"][..]));
    assert_eq!(registration.aliases, [["hail"], ["send_welcome"]]);
    let job = WithAliases::new(7).into_new_job().unwrap();
    assert_eq!((&*job.kind, &*job.unique.as_ref().unwrap().name), ("greet", "hail"));
    assert_eq!(job.rules.iter().map(|rule| &*rule.name).collect::<Vec<_>>(), ["hail"]);
    let registry = Registry::new().with::<Derived>();
    let scheduled = registry.iter().filter(|registration| registration.schedule.is_some());
    assert_eq!(scheduled.map(|registration| registration.kind).collect::<Vec<_>>(), ["before"]);
}

#[job(every = "1h 30m", catch_up = "all")]
fn every_ninety_minutes() {}

#[test]
fn an_interval_reaches_the_registration_in_one_form() {
    let every = EveryNinetyMinutes::REGISTRATION.schedule.unwrap();
    assert_eq!((every.expression, every.timezone, every.catch_up), ("@every 90m", "UTC", CatchUp::All));
}
