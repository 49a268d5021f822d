//! The page that asks before anything is changed, and the form behind it.

use askama::Template;
use axum::body::Bytes;
use axum::http::StatusCode;
use axum::response::{Html, IntoResponse as _, Redirect, Response};
use diesel_jobs_core::StorageError;

use crate::act::{self, Act, Done, Form, Preview, REQUEST, Report};
use crate::failure::{Failure, Page};
use crate::field::{Mistake, fill};
use crate::link;
use crate::pages::{Visit, render};
use crate::shell::{Place, Shell};

#[derive(Template)]
#[template(path = "confirm.html")]
struct ConfirmPage {
    shell: Shell,
    preview: Preview,
    /// The hidden fields, which the form sends again.
    hidden: Vec<(String, String)>,
    /// Why it was not done.
    mistake: Option<Mistake>,
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

/// The page that asks for confirmation. Its fields have the values of the form. `mistake`: why it was not done.
async fn page(visit: &Visit, shell: Shell, act: &dyn Act, form: Form, mistake: Option<Mistake>) -> Page {
    let mut preview = act.preview(&visit.site).await?;
    fill(&mut preview.fields, &form.0, mistake.as_ref());
    let is_field = |name: &str| preview.fields.iter().any(|field| field.name == name);
    let hidden = form.0.into_iter().filter(|(name, value)| !is_field(name) && !value.is_empty()).collect();
    render(&ConfirmPage { shell, preview, hidden, mistake })
}

/// `GET /confirm`: what would be changed.
pub(crate) async fn ask(visit: Visit) -> Page {
    let mut form = Form(visit.pairs());
    let act = act::read(&form, true)?;
    let shell = visit.shell(Place::Nowhere, "Confirm").await?;
    admit(&visit, &shell, &*act)?;
    // The key is ours: with one from a link, the action might be taken for one that was done before.
    form.0.retain(|(name, _)| name != REQUEST);
    if act.is_cumulative() {
        let key = visit.site.operator().request_key().await?;
        form.0.push((REQUEST.to_owned(), key.to_string()));
    }
    page(&visit, shell, &*act, form, None).await
}

/// `POST /confirm`: performs the action. A form with a mistake is shown again, with the values that the user has
/// written.
pub(crate) async fn perform(visit: Visit, body: Bytes) -> Result<Response, Failure> {
    let form = Form(link::decode(&String::from_utf8_lossy(&body)));
    link::refuse_nul(&form.0)?;
    match done(&visit, &form).await {
        Ok((shell, Done::Report(report))) => Ok(Html(ReportPage { shell, report }.render()?).into_response()),
        // So that the browser does not send the form again when the page is reloaded.
        Ok((shell, Done::Page(path))) => Ok(Redirect::to(&shell.link(&path)).into_response()),
        Err(Failure::Mistake(mistake)) => again(&visit, form, mistake).await,
        Err(failure) => Err(failure),
    }
}

/// Performs the action of the form.
async fn done(visit: &Visit, form: &Form) -> Result<(Shell, Done), Failure> {
    let act = act::read(form, false)?;
    let shell = visit.shell(Place::Nowhere, "Done").await?;
    admit(visit, &shell, &*act)?;
    let done = act.perform(&visit.site, visit.rights.actor()).await.map_err(|failure| match failure {
        Failure::Malformed(text) | Failure::Storage(StorageError::Config(text)) => Mistake::of_form(&text).into(),
        failure => failure,
    })?;
    Ok((shell, done))
}

/// The form with what was written, and what is wrong with it.
async fn again(visit: &Visit, form: Form, mistake: Mistake) -> Result<Response, Failure> {
    let act = act::read(&form, true)?;
    let shell = visit.shell(Place::Nowhere, "Not done yet").await?;
    admit(visit, &shell, &*act)?;
    let page = page(visit, shell, &*act, form, Some(mistake)).await?;
    Ok((StatusCode::BAD_REQUEST, page).into_response())
}
