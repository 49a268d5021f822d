//! What is wrong with the database, each with what repairs it.

use std::time::Duration;

use askama::Template;
use diesel_jobs_core::storage::{Finding, Severity};

use super::{Visit, render};
use crate::checkup::Checkup;
use crate::failure::{Failure, Page};
use crate::format;
use crate::shell::{Place, Shell};

/// A result that is older is made anew when somebody looks at it.
const OLD: Duration = Duration::from_secs(60);
/// Whoever asks for a new one does not get one more often than this.
const AGAIN: Duration = Duration::from_secs(5);
/// So long the page waits for the first result.
const WAIT: Duration = Duration::from_secs(1);

#[derive(Template)]
#[template(path = "doctor.html")]
struct DoctorPage {
    shell: Shell,
    checkup: Option<Checkup>,
    is_running: bool,
}

/// The word, and the class of its colour, which a state of jobs has, too.
fn severity(finding: &Finding) -> (&'static str, &'static str) {
    match finding.severity {
        Severity::Error => ("error", "discarded"),
        Severity::Warning => ("warning", "retrying"),
        Severity::Skipped => ("skipped", "scheduled"),
    }
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
    let shell = visit.shell(Place::Doctor, "Doctor").await?.live("/doctor", "");
    site.checkups.begin(site.shared_operator(), age);
    if site.checkups.last().0.is_none() {
        site.checkups.ended(&(), WAIT).await;
    }
    let (checkup, is_running) = site.checkups.last();
    render(&DoctorPage { shell, checkup, is_running })
}
