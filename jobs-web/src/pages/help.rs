//! What the pages show, and the keys of the script.

use askama::Template;

use super::{Visit, render};
use crate::failure::Page;
use crate::format;
use crate::rights::Action;
use crate::shell::{Place, Shell};

#[derive(Template)]
#[template(path = "help.html")]
struct HelpPage {
    shell: Shell,
    may: Vec<&'static str>,
}

pub(crate) async fn help(visit: Visit) -> Page {
    let shell = visit.shell(Place::Nowhere, "Help").await?;
    let may = Action::ALL.iter().filter(|action| shell.may(**action)).map(|action| action.as_str()).collect();
    render(&HelpPage { shell, may })
}
