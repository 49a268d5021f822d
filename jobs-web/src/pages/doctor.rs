//! What is wrong with the database, each with what repairs it.

use std::time::Duration;

use askama::Template;
use diesel_jobs_core::storage::{Finding, Severity};

use super::{Visit, render};
use crate::doctor_report::DoctorReport;
use crate::failure::{Failure, Page};
use crate::format;
use crate::shell::{Place, Shell};

/// If the result is older than this, a visit of the page starts a new examination.
const OLD: Duration = Duration::from_secs(60);
/// A new examination does not start more often than this, even if a user asks for it.
const AGAIN: Duration = Duration::from_secs(5);
/// How long the page waits for the first result.
const WAIT: Duration = Duration::from_secs(1);

#[derive(Template)]
#[template(path = "doctor.html")]
struct DoctorPage {
    shell: Shell,
    doctor_report: Option<DoctorReport>,
    is_running: bool,
}

/// The word, and the class of its colour, which a state of jobs has, too.
fn severity(finding: &Finding) -> (&'static str, &'static str) {
    let colour_of = match finding.severity {
        Severity::Error => "discarded",
        Severity::Warning => "retrying",
        _ => "scheduled",
    };
    (finding.severity.as_str(), colour_of)
}

pub(crate) async fn doctor(visit: Visit) -> Page {
    let mut age = OLD;
    for (name, value) in visit.pairs() {
        match (name.as_str(), value.as_str()) {
            ("again", "yes") => age = AGAIN,
            _ => {
                return Err(Failure::Malformed(
                    "Write /doctor, or /doctor?again=yes for a new examination.".to_owned(),
                ));
            }
        }
    }
    let site = &visit.site;
    let mut shell = visit.shell(Place::Doctor, "Doctor").await?.live("/doctor", "");
    site.doctor_reports.begin(site.shared_operator(), age);
    if site.doctor_reports.last().0.is_none() {
        site.doctor_reports.ended(&(), WAIT).await;
    }
    let (doctor_report, is_running) = site.doctor_reports.last();
    shell.alert = doctor_report.as_ref().and_then(DoctorReport::counted).unwrap_or_default();
    render(&DoctorPage { shell, doctor_report, is_running })
}
