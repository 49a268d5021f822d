//! The page that asks before anything is changed, and the form behind it.

use askama::Template;
use axum::body::Bytes;
use axum::response::{Html, IntoResponse as _, Redirect, Response};

use crate::act::{self, Act, Done, Form, Preview, Report};
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
    match (visit.rights.may(right), shell.standby) {
        (false, _) => Err(Failure::Forbidden(right)),
        (true, true) => Err(Failure::Standby),
        (true, false) => Ok(()),
    }
}

/// `GET /confirm`: what would be changed.
pub(crate) async fn ask(visit: Visit) -> Page {
    let form = Form(visit.pairs());
    let act = act::read(&form, true)?;
    let shell = visit.shell(Place::Nowhere, "Confirm").await?;
    admit(&visit, &shell, &*act)?;
    let preview = act.preview(&visit.site).await?;
    let asked = |name: &str| preview.fields.iter().any(|field| field.name == name) || name == "name_typed";
    let hidden = form.0.into_iter().filter(|(name, value)| !asked(name) && !value.is_empty()).collect();
    render(&ConfirmPage { shell, preview, hidden })
}

/// `POST /confirm`: changes it.
pub(crate) async fn perform(visit: Visit, body: Bytes) -> Result<Response, Failure> {
    let form = Form(link::decode(&String::from_utf8_lossy(&body)));
    let act = act::read(&form, false)?;
    let shell = visit.shell(Place::Nowhere, "Done").await?;
    admit(&visit, &shell, &*act)?;
    match act.perform(&visit.site, visit.rights.actor()).await? {
        Done::Report(report) => Ok(Html(ReportPage { shell, report }.render()?).into_response()),
        // So that the browser does not send the form again when the page is reloaded.
        Done::Page(path) => Ok(Redirect::to(&shell.link(&path)).into_response()),
    }
}
