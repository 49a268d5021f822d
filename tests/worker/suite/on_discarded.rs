//! `on_discarded`: the job that is enqueued when another is discarded.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use diesel_jobs::enqueue::IntoNewJob as _;
use diesel_jobs::handler::{Discarded, FailureKind, Handle, Handled};
use diesel_jobs::operator::JobFilter;
use diesel_jobs::worker::Registry;
use diesel_jobs::{Job, JobContext, JobError, JobState, Outcome, State, job};
use support::{Db, registry};

#[derive(Clone, Default)]
struct Notes(Arc<Mutex<Vec<String>>>);

impl Notes {
    fn note(&self, text: String) {
        self.0.lock().unwrap().push(text);
    }

    fn all(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

#[job(queue = "alerts", max_attempts = 2)]
async fn alert_ops(discarded: Discarded, State(notes): State<Notes>) {
    let Discarded { kind, attempt, failure, error, .. } = discarded;
    notes.note(format!("{kind} {attempt} {failure}: {error}"));
}

#[job(max_attempts = 2, backoff = "fixed(1ms)", on_discarded = AlertOps)]
async fn charge(card: String) -> Result<(), JobError> {
    Err(JobError::msg(format!("the bank refused {card}")))
}

#[job(on_discarded = AlertOps, timeout = "20ms", max_attempts = 1)]
fn export(#[arg(secret)] token: String, ctx: &JobContext) {
    // It is asked to stop when its time is over.
    while !ctx.is_cancelled() {
        std::thread::sleep(Duration::from_millis(5));
    }
    drop(token);
}

#[job(on_discarded = AlertOps, max_attempts = 1)]
async fn login(#[arg(secret)] password: String) -> Result<(), JobError> {
    Err(JobError::msg(format!("no user with {password}")))
}

/// It takes more than the discarded job.
#[derive(serde::Serialize, serde::Deserialize, Job)]
struct Page {
    channel: String,
    about: Discarded,
}

impl Page {
    fn new(about: Discarded) -> Self {
        Self { channel: "on call".to_owned(), about }
    }
}

impl Handle for Page {
    async fn handle(self, ctx: JobContext) -> Handled {
        let notes = ctx.state::<Notes>().ok_or_else(|| JobError::msg("no notes"))?;
        notes.note(format!("{}: {} of {}", self.channel, self.about.attempt, self.about.max_attempts));
        Ok(Outcome::Complete)
    }
}

#[job(on_discarded = Page)]
async fn gives_up() -> Result<(), JobError> {
    Err(JobError::msg("never").fatal())
}

async fn a_discarded_job_enqueues_another_with_what_happened(db: Db) {
    let notes = Notes::default();
    db.enqueue(Charge::new("4711")).await;
    db.enqueue(Login::new("hunter2")).await;
    db.enqueue(GivesUp).await;
    let registry = registry![Charge, Login, GivesUp, Page, AlertOps];
    let stats = db.worker(registry).state(notes.clone()).build().unwrap().run_until_empty().await.unwrap();
    assert_eq!((stats.discarded, stats.completed), (3, 3));
    let mut notes = notes.all();
    notes.sort();
    assert_eq!(
        notes,
        ["charge 2 error: the bank refused 4711", "login 1 error: no user with [redacted]", "on call: 1 of 25",]
    );
}

async fn a_timeout_that_discards_counts_too(db: Db) {
    let notes = Notes::default();
    let id = db.enqueue(Export::new("secret")).await;
    db.worker(registry![Export, AlertOps]).state(notes.clone()).build().unwrap().run_until_empty().await.unwrap();
    let [note] = &notes.all()[..] else { panic!("{:?}", notes.all()) };
    assert!(note.starts_with("export 1 timeout: took longer than its timeout"), "{note}");
    assert_eq!(db.show(id).await.0.state, JobState::Discarded);
}

async fn a_worker_that_does_not_know_the_other_job_enqueues_it(db: Db) {
    db.enqueue(GivesUp).await;
    db.work(registry![GivesUp]).await;
    let waiting = db.database().operator.list_all(&JobFilter::of_kind("page"), 10).await.unwrap();
    let [page] = &waiting[..] else { panic!("{} jobs", waiting.len()) };
    let page: Page = serde_json::from_str(&page.args).unwrap();
    assert_eq!((&*page.about.kind, page.about.failure), ("gives_up", FailureKind::Error));
}

#[derive(serde::Serialize, serde::Deserialize, Job)]
struct Forgets {
    kind: String,
}

impl Forgets {
    fn new(discarded: Discarded) -> Self {
        Self { kind: discarded.kind }
    }
}

impl Handle for Forgets {
    async fn handle(self, _: JobContext) -> Handled {
        Ok(Outcome::Complete)
    }
}

#[job(on_discarded = Forgets)]
async fn refused() {}

async fn a_job_that_does_not_keep_the_discarded_one_is_refused_at_the_start(db: Db) {
    let problem = db.worker(Registry::new().with::<Refused>()).build().unwrap_err().to_string();
    for part in [
        "job `refused` (",
        "on_discarded.rs:",
        "cannot enqueue its `on_discarded` job",
        r#"{"kind":"refused"}"#,
        "`Discarded`",
    ] {
        assert!(problem.contains(part), "{problem}");
    }
    assert_eq!(Refused.into_new_job().unwrap().kind, "refused");
}

/// It takes a text that is made of the discarded job.
#[derive(serde::Serialize, serde::Deserialize, Job)]
struct Summary {
    text: String,
    about: Discarded,
}

impl Summary {
    fn new(about: Discarded) -> Self {
        Self { text: format!("{} failed: {}", about.kind, about.error), about }
    }
}

impl Handle for Summary {
    async fn handle(self, _: JobContext) -> Handled {
        Ok(Outcome::Complete)
    }
}

#[job(on_discarded = Summary)]
async fn summarised() {}

/// With an error its arguments may exceed the limit.
#[derive(serde::Serialize, serde::Deserialize, Job)]
struct Large {
    text: String,
    about: Discarded,
}

impl Large {
    fn new(about: Discarded) -> Self {
        Self { text: "x".repeat(250_000), about }
    }
}

impl Handle for Large {
    async fn handle(self, _: JobContext) -> Handled {
        Ok(Outcome::Complete)
    }
}

#[job(on_discarded = Large)]
async fn enlarged() {}

async fn a_job_that_cannot_be_stored_once_for_all_is_refused_at_the_start(db: Db) {
    let problem = db.worker(registry![Summarised]).build().unwrap_err().to_string();
    assert!(problem.contains("uses the `Discarded` for more than the argument `about`"), "{problem}");
    let problem = db.worker(registry![Enlarged]).build().unwrap_err().to_string();
    assert!(problem.contains("its arguments take 250011 bytes without the discarded job"), "{problem}");
}

/// One alert at a time, and none that is an hour late.
#[job(concurrency("pager", limit = 1), sequence(), expires = "1h")]
async fn ring(about: Discarded, State(notes): State<Notes>) {
    notes.note(format!("ring {}", about.kind));
}

#[job(on_discarded = Ring, max_attempts = 1)]
async fn alarms() -> Result<(), JobError> {
    Err(JobError::msg("fire"))
}

async fn the_other_job_has_its_rules_and_expires(db: Db) {
    db.enqueue(Alarms).await;
    db.enqueue(Alarms).await;
    db.work(registry![Alarms]).await;
    let waiting = db.database().operator.list_all(&JobFilter::of_kind("ring"), 10).await.unwrap();
    assert_eq!(waiting.len(), 2);
    for ring in &waiting {
        let rules: Vec<_> = ring.rules.iter().map(|rule| &*rule.name).collect();
        assert_eq!(rules, ["ring", "pager"]);
    }
    // The worker that enqueued them may have admitted one of them before it ended. That changes its run time.
    let held = waiting.iter().find(|ring| ring.state == JobState::Held).expect("the pager lets one ring at a time");
    let start_by = db.database().operator.surroundings(held.id).await.unwrap().start_by.unwrap();
    assert_eq!(start_by - held.run_at, chrono::TimeDelta::hours(1));
    let notes = Notes::default();
    let stats = db.worker(registry![Ring]).state(notes.clone()).build().unwrap().run_until_empty().await.unwrap();
    assert_eq!((stats.completed, notes.all()), (2, vec!["ring alarms".to_owned(); 2]));
}

#[job(concurrency(limit = 1, by(about)))]
async fn keyed(about: Discarded) {
    drop(about);
}

#[job(on_discarded = Keyed)]
async fn varies() {}

#[job(unique())]
async fn once(about: Discarded) {
    drop(about);
}

#[job(on_discarded = Once)]
async fn waits() {}

async fn a_key_that_no_rule_can_have_is_refused_at_the_start(db: Db) {
    let problem = db.worker(registry![Varies]).build().unwrap_err().to_string();
    assert!(problem.contains("the key or the tenant of its rule `keyed` is made of the `Discarded`"), "{problem}");
    let problem = db.worker(registry![Waits]).build().unwrap_err().to_string();
    assert!(problem.contains("it must not be unique: a worker that discards a job would wait"), "{problem}");
}

support::on_each_database! {
    the_other_job_has_its_rules_and_expires,
    a_key_that_no_rule_can_have_is_refused_at_the_start,
    a_job_that_cannot_be_stored_once_for_all_is_refused_at_the_start,
    a_discarded_job_enqueues_another_with_what_happened,
    a_timeout_that_discards_counts_too,
    a_worker_that_does_not_know_the_other_job_enqueues_it,
    a_job_that_does_not_keep_the_discarded_one_is_refused_at_the_start,
}
