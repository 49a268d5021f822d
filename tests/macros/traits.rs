//! `Debug`, `Clone` and `PartialEq` of the generated structs, and secret arguments.

use diesel_jobs::{Job, JobContext, JobError, Outcome, job};

#[derive(serde::Serialize, serde::Deserialize)]
struct Opaque {
    number: i64,
}

#[job]
fn plain(number: i64, text: &str, list: Vec<Option<u8>>) {
    let _ = (number, text, list);
}

#[job]
fn without_arguments() {}

#[job]
fn log_in(user: String, #[arg(secret)] password: &str, #[arg(secret)] token: Opaque) -> Result<(), JobError> {
    Err(JobError::msg(format!("{user} cannot log in with {password} and {}", token.number)))
}

#[derive(serde::Serialize, serde::Deserialize, Job)]
struct Derived {
    #[arg(secret)]
    #[serde(default, alias = "pw")]
    #[serde(alias = "secret_word")]
    password: String,
}

impl diesel_jobs::handler::Handle for Derived {
    async fn handle(self, _: JobContext) -> Result<Outcome, JobError> {
        Ok(Outcome::Cancel(self.password))
    }
}

#[test]
fn a_job_has_the_traits_of_its_arguments() {
    let job = Plain::new(7, "seven", vec![Some(1), None]);
    assert_eq!(format!("{job:?}"), "Plain { number: 7, text: \"seven\", list: [Some(1), None] }");
    assert_eq!(job.clone(), job);
    assert_ne!(Plain { number: 8, ..job.clone() }, job);
    assert_ne!(Plain { list: vec![], ..job.clone() }, job);
    assert_eq!(format!("{:?}", WithoutArguments.clone()), "WithoutArguments");
    assert_eq!(WithoutArguments, WithoutArguments);
}

#[test]
fn a_job_without_them_is_a_job_nevertheless() {
    let job = OpaqueJob::new(Opaque { number: 1 });
    assert_eq!(serde_json::to_string(&job).unwrap(), r#"{"value":{"number":1}}"#);
}

/// The argument has none of the traits, so the struct has none.
#[job]
fn opaque_job(value: Opaque) {
    let _ = value.number;
}

#[test]
fn a_secret_is_redacted_where_the_job_is_printed_and_stored_as_it_is() {
    let job = LogIn::new("ada", "hunter2", Opaque { number: 4711 });
    assert_eq!(format!("{job:?}"), "LogIn { user: \"ada\", password: [redacted], token: [redacted] }");
    assert_eq!(LogIn::OPTIONS.secrets, ["password", "token"]);
    assert_eq!(Derived::OPTIONS.secrets, ["password", "pw", "secret_word"]);
    assert_eq!(Plain::OPTIONS.secrets, [""; 0]);
    let stored = serde_json::to_value(&job).unwrap();
    assert_eq!(stored["password"], "hunter2");
    // The function itself is called as it is written.
    assert!(log_in("ada".into(), "hunter2", Opaque { number: 1 }).is_err());
}
