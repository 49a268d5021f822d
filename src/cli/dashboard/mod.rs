//! `dashboard`: serves the dashboard's pages.

mod admission;
pub(super) mod args;
mod probes;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::middleware::from_fn_with_state;
use diesel_jobs_web::{Dashboard, Rights, is_frame_ancestor};
use tokio::net::TcpListener;

use self::admission::{Admission, admit};
use self::args::DashboardArgs;
use self::probes::Probes;
use super::app::App;
use super::exit::{CliError, Exit};
use super::signals::Signals;
#[cfg(unix)]
use super::systemd;
use super::{database, output, settings};

/// The variable with the token.
const TOKEN: &str = "JOBS_DASHBOARD_TOKEN";
/// A shorter token could be guessed.
const SHORTEST_TOKEN: usize = 16;

pub(super) async fn dashboard(app: &App<'_>, args: DashboardArgs) -> Result<Exit, CliError> {
    let token = token(app)?;
    if !args.listen.ip().is_loopback() {
        match (args.allow_remote, &token) {
            (true, Some(_)) => {}
            (false, _) => {
                return Err(CliError::usage(format!(
                    "--listen {}: other machines may reach this address; add --allow-remote and set {TOKEN}, or listen at 127.0.0.1",
                    args.listen
                )));
            }
            (true, None) => {
                return Err(CliError::usage(format!(
                    "--allow-remote: set {TOKEN} to a secret of at least {SHORTEST_TOKEN} characters; without it, anyone who reaches \
                     {} could delete jobs",
                    args.listen
                )));
            }
        }
    }
    let ancestors: Vec<&str> = args.frame_ancestors.iter().map(|origin| origin.trim()).collect();
    if !ancestors.iter().all(|origin| is_frame_ancestor(origin)) {
        // What is no origin may be a URL with a password.
        return Err(CliError::usage(
            "--frame-ancestors: write origins without a path, such as https://ops.example.org or https://*.example.org, or 'self', \
             separated by commas",
        ));
    }
    let actor = settings::actor(args.actor.clone(), app.env)?;
    let database = database::open(app.chosen()?, database::NO_HANDLERS).await?;
    // A schema that this program cannot serve is an error at once. An unreachable database is not: the pages say so.
    match database.storage.check_schema().await {
        Err(error) if !error.is_transient() => return Err(error.into()),
        _ => {}
    }
    let rights = move |actor: String| if args.read_only { Rights::read_only(actor) } else { Rights::everything(actor) };
    let probes = Probes::new(database.storage.clone(), args.read_only);
    let dashboard = Dashboard::new(database).at(&args.base);
    let mut dashboard = ancestors.into_iter().fold(dashboard, Dashboard::frame_ancestor);
    if args.show_arguments_of_unknown_kinds {
        dashboard = dashboard.show_arguments_of_unknown_kinds();
    }
    let dashboard = dashboard.rights(move |request| {
        // The admission has put the actor there.
        let actor = request.extensions.get::<admission::Actor>().map(|actor| actor.0.clone());
        std::future::ready(actor.map_or_else(Rights::none, rights))
    });
    let admission = Arc::new(Admission::new(token, actor));
    let pages = below(&args.base, dashboard.router()).layer(from_fn_with_state(admission, admit));
    serve(app, args.listen, &path(&args.base), probes.before(pages)).await
}

/// Reads the token.
fn token(app: &App<'_>) -> Result<Option<String>, CliError> {
    let Some(token) = (app.env)(TOKEN).filter(|token| !token.is_empty()) else { return Ok(None) };
    let token = token.into_string().map_err(|_| CliError::usage(format!("{TOKEN} is not UTF-8")))?;
    if token.chars().count() < SHORTEST_TOKEN {
        return Err(CliError::usage(format!("{TOKEN} is too short: use at least {SHORTEST_TOKEN} random characters")));
    }
    Ok(Some(token))
}

/// The path of the first page, as browsers see it.
fn path(base: &str) -> String {
    format!("/{}", base.trim_matches('/'))
}

/// Through a proxy the path of a page arrives with or without the prefix.
fn below(base: &str, pages: Router) -> Router {
    match path(base).as_str() {
        "/" => pages,
        path => Router::new().nest_service(path, pages.clone()).fallback_service(pages),
    }
}

/// Serves until a signal. Requests in progress are not awaited, because event streams never end.
async fn serve(app: &App<'_>, listen: SocketAddr, path: &str, router: Router) -> Result<Exit, CliError> {
    let mut signals = Signals::install()?;
    let listener = TcpListener::bind(listen).await.map_err(|error| unable(listen, &error))?;
    let at = listener.local_addr().map_err(|error| unable(listen, &error))?;
    let place = format!("http://{at}{path}");
    output::complain(&format!("the dashboard is at {place}; Ctrl-C ends it"));
    #[cfg(unix)]
    let unit = systemd::Notifier::of(app.env).map(Arc::new);
    #[cfg(unix)]
    if let Some(unit) = unit.clone() {
        tokio::spawn(async move { unit.follow_dashboard(&place).await });
    }
    tokio::select! {
        served = axum::serve(listener, router) => served.map_err(|error| CliError::failed(format!("serving: {error}")))?,
        signal = signals.next() => {
            #[cfg(unix)]
            unit.iter().for_each(|unit| unit.dashboard_stops());
            output::complain(&format!("{signal} received: the dashboard ends"));
        }
    }
    Ok(Exit::Fine)
}

fn unable(listen: SocketAddr, error: &io::Error) -> CliError {
    CliError::failed(format!("--listen {listen}: {error}; choose another port, or 0 for any free one"))
}
