//! The dashboard is only there for those whom the proxy has signed in.

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{Method, Request, StatusCode};
use axum_app::{ADMIN_JOBS, Operators, admin_jobs};
use diesel_jobs::Database;
use tower::ServiceExt as _;

use crate::database::Db;

async fn ask(jobs: &Router, method: Method, path: &str, headers: &[(&str, &str)]) -> (StatusCode, String) {
    let mut request =
        Request::builder().method(method).uri(format!("{ADMIN_JOBS}{path}")).header("sec-fetch-site", "same-origin");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let response = jobs.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
    let status = response.status();
    let body = to_bytes(response.into_body(), usize::MAX).await.unwrap();
    (status, String::from_utf8(body.into()).unwrap())
}

#[tokio::test]
async fn only_operators_who_came_through_the_proxy_see_the_dashboard() {
    let db = Db::migrated().await;
    let database = Database::open(db.url(), 0).await.unwrap();
    let operators = Operators { proxy_secret: "s3cret".to_owned(), admins: vec!["ada".to_owned()] };
    let jobs = Router::new().nest(ADMIN_JOBS, admin_jobs(database.clone(), Some(operators)));

    let ada: &[(&str, &str)] = &[("x-operator", "ada"), ("x-proxy-secret", "s3cret")];
    let bob: &[(&str, &str)] = &[("x-operator", "bob"), ("x-proxy-secret", "s3cret")];
    for refused in [
        &[][..],
        &[("x-operator", "ada")],
        &[("x-proxy-secret", "s3cret")],
        &[("x-operator", "ada"), ("x-proxy-secret", "x")],
    ] {
        for path in ["", "/jobs", "/assets/dashboard.css", "/events?page=/"] {
            assert_eq!(ask(&jobs, Method::GET, path, refused).await.0, StatusCode::FORBIDDEN, "{path} {refused:?}");
        }
    }
    let (status, page) = ask(&jobs, Method::GET, "/jobs", bob).await;
    assert!(status == StatusCode::OK && page.contains("Shop jobs") && page.contains("value=\"retry\""), "{page}");
    assert!(!page.contains("value=\"cancel\""));
    assert!(ask(&jobs, Method::GET, "/jobs", ada).await.1.contains("value=\"cancel\""));
    assert_eq!(ask(&jobs, Method::GET, "/confirm?action=cancel&id=1", bob).await.0, StatusCode::FORBIDDEN);

    // A shop that is not set up for it refuses everybody.
    let jobs = Router::new().nest(ADMIN_JOBS, admin_jobs(database, None));
    assert_eq!(ask(&jobs, Method::GET, "", ada).await.0, StatusCode::FORBIDDEN);
}
