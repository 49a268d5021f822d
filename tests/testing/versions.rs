//! Versions of a job's arguments, and their golden files.

use std::fs;
use std::path::Path;

use diesel_jobs::__private::check_golden;
use diesel_jobs::enqueue::IntoNewJob;
use diesel_jobs::handler::{Handle, Registered};
use diesel_jobs::prelude::*;
use diesel_jobs::testing::Ended::{Completed, Discarded};
use diesel_jobs::testing::{drain, enqueued};
use diesel_jobs::worker::Registry;
use diesel_jobs::{NewJob, assert_enqueued, assert_golden, refute_enqueued};

use crate::database;

/// The job as programs of its first two versions declare it.
mod before {
    use diesel_jobs::prelude::*;

    #[job(queue = "billing")]
    pub(super) fn bill(order: i64) {
        let _ = order;
    }

    pub(super) mod second {
        use diesel_jobs::prelude::*;

        #[job(kind = "bill", queue = "billing", version = 2, upgrade = [])]
        pub(in super::super) fn bill(order: i64, cents: i64) {
            let _ = (order, cents);
        }
    }
}

#[derive(serde::Deserialize)]
struct FirstArguments {
    order: i64,
}

#[derive(serde::Serialize, serde::Deserialize)]
struct SecondArguments {
    order: i64,
    cents: i64,
}

fn from_v1(first: FirstArguments) -> SecondArguments {
    SecondArguments { order: first.order, cents: 100 }
}

fn from_v2(second: SecondArguments) -> Bill {
    Bill { order_id: second.order, amount: (second.cents, "EUR".to_owned()) }
}

#[job(kind = "bill", queue = "billing", max_attempts = 1, version = 3, upgrade = [from_v1, from_v2])]
fn bill(order_id: i64, amount: (i64, String)) -> Result<String, std::io::Error> {
    Ok(format!("{order_id}: {} {}", amount.0, amount.1))
}

#[derive(Debug, PartialEq, serde::Serialize, serde::Deserialize, Job)]
#[job(version = 2, upgrade = Archive::from_first)]
struct Archive {
    paths: Vec<String>,
}

impl Archive {
    fn from_first(path: FirstPath) -> Self {
        Self { paths: vec![path.path] }
    }
}

#[derive(serde::Deserialize)]
struct FirstPath {
    path: String,
}

impl Handle for Archive {
    async fn handle(self, _: JobContext) -> Result<Outcome, JobError> {
        Err(JobError::msg(self.paths.join(" and ")).fatal())
    }
}

#[derive(serde::Deserialize)]
struct FirstCard {
    card: String,
}

fn from_card(first: FirstCard) -> PayCard {
    PayCard { token: first.card }
}

#[job(version = 2, upgrade = from_card)]
fn pay_card(#[arg(secret)] token: String) -> Result<(), JobError> {
    Err(JobError::msg(format!("card {token} refused")).fatal())
}

fn stored(kind: &str, args: &str) -> NewJob {
    let mut job = before::Bill::new(0).into_new_job().unwrap();
    job.kind = kind.to_owned().into();
    args.clone_into(&mut job.args);
    job
}

fn programs_of_version_1() -> Registry {
    Registry::new().with::<before::Bill>()
}

#[test]
fn each_version_has_a_kind_of_its_own() {
    assert_eq!([before::Bill::KIND, before::second::Bill::KIND, Bill::KIND], ["bill", "bill.v2", "bill.v3"]);
    assert_eq!(Registry::new().with::<Bill>().kinds(), ["bill", "bill.v2", "bill.v3"]);
    assert_eq!(Registry::new().with::<before::second::Bill>().kinds(), ["bill.v2"]);
    assert_eq!((Bill::REGISTRATION.version, before::Bill::REGISTRATION.version), (3, 1));
    let again = Registry::new().with::<Bill>();
    let mut copy = Registry::new();
    again.iter().for_each(|registration| copy.insert(*registration));
    assert!(copy.check(&diesel_jobs_core::States::default(), |_| true, "a database").is_ok());
}

#[test]
fn jobs_of_each_version_are_seen_with_upgraded_arguments() {
    let mut conn = database::sqlite();
    stored("bill", r#"{"order": 1}"#).enqueue(&mut conn).unwrap();
    stored("bill.v2", r#"{"order": 2, "cents": 250}"#).enqueue(&mut conn).unwrap();
    Bill::new(3, (7, "CHF".to_owned())).enqueue(&mut conn).unwrap();
    let euros = |cents| (cents, "EUR".to_owned());
    assert_enqueued!(conn, Bill { order_id: 1, amount: euros(100) }, count = 1);
    assert_enqueued!(conn, Bill { order_id: 2, amount: euros(250) }, queue = "billing");
    assert_enqueued!(conn, Bill, count = 3);
    refute_enqueued!(conn, Bill { order_id: 4, .. });
    let bills = enqueued::<Bill, _>(&mut conn).unwrap();
    assert_eq!(
        bills.iter().map(|bill| bill.args.clone()).collect::<Vec<_>>(),
        [Bill::new(1, euros(100)), Bill::new(2, euros(250)), Bill::new(3, (7, "CHF".to_owned()))]
    );
    let different = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        assert_enqueued!(conn, Bill { order_id: 9, amount: euros(100) });
    }));
    let message = *different.unwrap_err().downcast::<String>().unwrap();
    assert!(message.contains("of kind `bill` in queue `billing`, due now\n    order_id: 1, expected 9\n"), "{message}");
    let report = drain(&mut conn).run().unwrap();
    report.assert_ran::<Bill>([Completed; 3]);
    let wrong = std::panic::catch_unwind(|| report.assert_ran::<Bill>([Completed, Completed, Discarded]));
    let message = *wrong.unwrap_err().downcast::<String>().unwrap();
    let expected = "the attempts of kind `bill.v3` ended [Completed, Completed, Completed], expected [Completed, Completed, Discarded]";
    assert!(message.starts_with(expected), "{message}");
}

#[test]
fn jobs_of_each_version_run_with_upgraded_arguments() {
    let mut conn = database::sqlite();
    stored("bill", r#"{"order": 1}"#).enqueue(&mut conn).unwrap();
    stored("bill.v2", r#"{"order": 2, "cents": 250}"#).enqueue(&mut conn).unwrap();
    Bill::new(3, (7, "CHF".to_owned())).enqueue(&mut conn).unwrap();
    let report = drain(&mut conn).registry(Registry::new().with::<Bill>()).run().unwrap();
    let outputs: Vec<_> = report.ran.iter().map(|ran| ran.output.as_ref().unwrap().read::<String>().unwrap()).collect();
    assert_eq!(outputs, ["1: 100 EUR", "2: 250 EUR", "3: 7 CHF"].map(|output| Some(output.to_owned())), "{report}");
}

#[test]
fn a_derived_job_has_versions_too() {
    let mut conn = database::sqlite();
    stored("archive", r#"{"path": "a"}"#).enqueue(&mut conn).unwrap();
    Archive { paths: vec!["b".to_owned(), "c".to_owned()] }.enqueue(&mut conn).unwrap();
    let report = drain(&mut conn).registry(Registry::new().with::<Archive>()).run().unwrap();
    let errors: Vec<_> = report.ran.iter().map(|ran| ran.error.as_deref().unwrap()).collect();
    assert_eq!(errors, ["a", "b and c"], "{report}");
}

#[test]
fn an_older_program_leaves_newer_versions_alone() {
    let mut conn = database::sqlite();
    stored("bill", r#"{"order": 1}"#).enqueue(&mut conn).unwrap();
    Bill::new(3, (7, "CHF".to_owned())).enqueue(&mut conn).unwrap();
    let report = drain(&mut conn).registry(programs_of_version_1()).run().unwrap();
    assert_eq!((report.ran.len(), report.waiting.len()), (1, 1), "{report}");
    assert_eq!(report.waiting[0].kind, "bill.v3");
    assert!(report.to_string().contains("bill.v3"), "{report}");
}

#[test]
fn arguments_of_an_earlier_version_of_a_job_with_secrets_are_all_secret() {
    let mut conn = database::sqlite();
    stored("pay_card", r#"{"card": "4111"}"#).enqueue(&mut conn).unwrap();
    let report = drain(&mut conn).only::<PayCard>().run().unwrap();
    assert_eq!(report.ran[0].error.as_deref(), Some("card [redacted] refused"), "{report}");
    report.assert_discarded::<PayCard>(1);
    let linked = Registry::linked();
    let secrets = |kind: &str| linked.get(kind).unwrap().options.secrets;
    let shown = diesel_jobs_core::secrets::redacted(r#"{"card":"4111"}"#, secrets("pay_card"));
    assert_eq!(shown, r#"{"card":"[redacted]"}"#);
    assert_eq!((secrets("pay_card.v2"), secrets("archive")), (&["token"][..], &[][..]));
}

#[test]
fn stored_arguments_that_no_version_fits_name_the_kind() {
    let mut conn = database::sqlite();
    stored("bill.v2", r#"{"order": 2}"#).enqueue(&mut conn).unwrap();
    let report = drain(&mut conn).registry(Registry::new().with::<Bill>()).run().unwrap();
    let error = report.ran[0].error.as_deref().unwrap();
    assert!(error.contains("job kind `bill.v2`") && error.contains("cents"), "{error}");
}

/// An empty directory that stands for the root of a package.
fn package() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

fn golden(package: &Path, file: &str) -> std::path::PathBuf {
    package.join("jobs/golden").join(file)
}

#[test]
fn a_golden_file_is_written_once_and_then_compared() {
    // A machine of continuous integration writes none: see below.
    if std::env::var_os("CI").is_some() {
        return;
    }
    let package = package();
    check_golden(package.path(), &before::Bill::new(7)).unwrap();
    let file = golden(package.path(), "bill.v1.json");
    assert_eq!(fs::read_to_string(&file).unwrap(), "{\n  \"order\": 7\n}\n");
    check_golden(package.path(), &before::Bill::new(7)).unwrap();
    let error = check_golden(package.path(), &before::Bill::new(8)).unwrap_err();
    assert!(error.contains("stored: Bill { order: 7 }\n    test: Bill { order: 8 }"), "{error}");
    fs::write(&file, r#"{"orders": 7}"#).unwrap();
    let error = check_golden(package.path(), &before::Bill::new(7)).unwrap_err();
    assert!(error.contains("bill.v1.json") && error.contains("can no longer be decoded"), "{error}");
}

#[test]
fn the_golden_files_of_earlier_versions_must_be_there_and_decode() {
    let package = package();
    fs::create_dir_all(golden(package.path(), "")).unwrap();
    let job = Bill::new(3, (7, "CHF".to_owned()));
    fs::write(golden(package.path(), "bill.v3.json"), serde_json::to_string(&job).unwrap()).unwrap();
    fs::write(golden(package.path(), "bill.v2.json"), r#"{"order": 2, "cents": 250}"#).unwrap();
    let error = check_golden(package.path(), &job).unwrap_err();
    assert!(error.contains("bill.v1.json is missing"), "{error}");
    fs::write(golden(package.path(), "bill.v1.json"), r#"{"order_id": 2}"#).unwrap();
    let error = check_golden(package.path(), &job).unwrap_err();
    assert!(error.contains("bill.v1.json") && error.contains("`order`"), "{error}");
    fs::write(golden(package.path(), "bill.v1.json"), r#"{"order": 2}"#).unwrap();
    check_golden(package.path(), &job).unwrap();
}

mod renamed {
    use super::{FirstArguments, from_v1};
    use diesel_jobs::prelude::*;

    fn order(first: FirstArguments) -> Invoice {
        let second = from_v1(first);
        Invoice::new(second.order, second.cents)
    }

    #[job(aliases("bill"), version = 2, upgrade = order)]
    pub(super) fn invoice(order: i64, cents: i64) {
        let _ = (order, cents);
    }
}

#[test]
fn the_golden_files_of_an_alias_stand_for_those_of_the_kind() {
    let package = package();
    fs::create_dir_all(golden(package.path(), "")).unwrap();
    let job = renamed::Invoice::new(3, 50);
    fs::write(golden(package.path(), "invoice.v2.json"), serde_json::to_string(&job).unwrap()).unwrap();
    let error = check_golden(package.path(), &job).unwrap_err();
    assert!(error.contains("invoice.v1.json is missing"), "{error}");
    fs::write(golden(package.path(), "bill.v1.json"), r#"{"order": 2}"#).unwrap();
    check_golden(package.path(), &job).unwrap();
    fs::write(golden(package.path(), "bill.v2.json"), r#"{"order": 2}"#).unwrap();
    let error = check_golden(package.path(), &job).unwrap_err();
    assert!(error.contains("bill.v2.json") && error.contains("`cents`"), "{error}");
}

#[test]
fn the_golden_file_of_this_package_still_decodes() {
    assert_golden!(Archive { paths: vec!["orders.csv".to_owned()] });
}
