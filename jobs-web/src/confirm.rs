//! The page that asks before anything is changed, and the form behind it.

use askama::Template;
use axum::body::Bytes;
use axum::http::StatusCode;
use axum::response::{Html, IntoResponse as _, Redirect, Response};
use diesel_jobs_core::StorageError;

use crate::act::{self, Act, Done, Form, Input, Preview, Report};
use crate::failure::{Failure, Page};
use crate::link;
use crate::pages::{Visit, render};
use crate::shell::{Place, Shell};

#[derive(Template)]
#[template(path = "confirm.html")]
struct ConfirmPage {
    shell: Shell,
    preview: Preview,
    /// What the form sends again.
    hidden: Vec<(String, String)>,
    /// Why it was not done.
    problem: Option<String>,
}

#[derive(Template)]
#[template(path = "report.html")]
struct ReportPage {
    shell: Shell,
    report: Report,
}

/// Fails unless the sender may do this now.
fn admit(visit: &Visit, shell: &Shell, act: &dyn Act) -> Result<(), Failure> {
    let right = act.right();
    match (visit.rights.may(right), shell.read_only) {
        (false, _) => Err(Failure::Forbidden(right)),
        (true, Some(why)) => Err(Failure::ReadOnly(why)),
        (true, None) => Ok(()),
    }
}

/// The page that asks. What the form says stands in its fields again. `problem`: why it was not done.
async fn page(visit: &Visit, shell: Shell, act: &dyn Act, form: Form, problem: Option<String>) -> Page {
    let mut preview = act.preview(&visit.site).await?;
    for field in &mut preview.fields {
        if form.0.iter().any(|(name, _)| name == field.name) {
            form.get(field.name).clone_into(&mut field.value);
        }
    }
    let asked = |name: &str| preview.fields.iter().any(|field| field.name == name) || name == "name_typed";
    let hidden = form.0.into_iter().filter(|(name, value)| !asked(name) && !value.is_empty()).collect();
    render(&ConfirmPage { shell, preview, hidden, problem })
}

/// `GET /confirm`: what would be changed.
pub(crate) async fn ask(visit: Visit) -> Page {
    let form = Form(visit.pairs());
    let act = act::read(&form, true)?;
    let shell = visit.shell(Place::Nowhere, "Confirm").await?;
    admit(&visit, &shell, &*act)?;
    page(&visit, shell, &*act, form, None).await
}

/// `POST /confirm`: changes it. If the form has a mistake, it is shown again with what was written.
pub(crate) async fn perform(visit: Visit, body: Bytes) -> Result<Response, Failure> {
    let form = Form(link::decode(&String::from_utf8_lossy(&body)));
    let act = act::read(&form, false)?;
    let shell = visit.shell(Place::Nowhere, "Done").await?;
    admit(&visit, &shell, &*act)?;
    match act.perform(&visit.site, visit.rights.actor()).await {
        Ok(Done::Report(report)) => Ok(Html(ReportPage { shell, report }.render()?).into_response()),
        // So that the browser does not send the form again when the page is reloaded.
        Ok(Done::Page(path)) => Ok(Redirect::to(&shell.link(&path)).into_response()),
        Err(Failure::Malformed(problem) | Failure::Storage(StorageError::Config(problem))) => {
            let page = page(&visit, shell, &*act, form, Some(problem)).await?;
            Ok((StatusCode::BAD_REQUEST, page).into_response())
        }
        Err(failure) => Err(failure),
    }
}
