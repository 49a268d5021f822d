//! `/admin/jobs`: the dashboard of the jobs, for the shop's operators.
//!
//! A proxy before the shop signs operators in. It adds their name in `X-Operator`, and a secret in `X-Proxy-Secret`,
//! which shows that the request came through it. An application with sessions would check them here instead.

use std::sync::Arc;

use axum::Router;
use axum::http::HeaderMap;
use diesel_jobs::Database;
use diesel_jobs_web::{Action, Dashboard, Rights};

/// The path of the dashboard.
pub const ADMIN_JOBS: &str = "/admin/jobs";

/// Who may use the dashboard.
#[derive(Clone)]
#[expect(missing_debug_implementations, reason = "it holds a secret")]
pub struct Operators {
    /// What the proxy sends in `X-Proxy-Secret`.
    pub proxy_secret: String,
    /// The operators who may do everything. All others may read, and retry jobs.
    pub admins: Vec<String>,
}

/// The dashboard, to be nested at [`ADMIN_JOBS`]. Without operators it refuses everybody.
pub fn admin_jobs(database: Database, operators: Option<Operators>) -> Router {
    let operators = Arc::new(operators);
    Dashboard::new(database)
        .at(ADMIN_JOBS)
        .title("Shop jobs")
        .rights(move |request| std::future::ready(rights(&request.headers, operators.as_ref().as_ref())))
        .router()
}

fn rights(headers: &HeaderMap, operators: Option<&Operators>) -> Rights {
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).filter(|value| !value.is_empty());
    let (Some(operators), Some(name)) = (operators, header("x-operator")) else { return Rights::none() };
    if header("x-proxy-secret") != Some(operators.proxy_secret.as_str()) {
        return Rights::none();
    }
    if operators.admins.iter().any(|admin| admin == name) {
        Rights::everything(name)
    } else {
        Rights::read_only(name).allow(Action::Retry)
    }
}
