//! What goes wrong is said, and is no failure of the server.

use axum::http::StatusCode;
use support::Db;

use crate::client::Client;
use crate::seed::seed;

async fn what_is_not_there_is_said(db: Db) {
    seed(&db).await;
    let client = Client::of(db.database());
    for (path, text) in [
        ("/jobs/999999", "There is no job 999999"),
        ("/jobs/x", "\"x\" is not the id of a job"),
        ("/jobs/99999999999999999999", "is not the id of a job"),
        ("/nothing", "There is no such page"),
    ] {
        let answer = client.get(path).await;
        assert_eq!(answer.status, StatusCode::NOT_FOUND, "{path}");
        answer.page().shows(text);
    }
}

async fn a_malformed_request_is_told_what_is_allowed(db: Db) {
    let client = Client::of(db.database());
    for (path, text) in [
        ("/jobs?state=gone", "available, scheduled, retrying, held, running, completed, cancelled, discarded"),
        ("/jobs?stat=running", "There is no filter \"stat\""),
        ("/jobs?limit=0", "from 1 to 1000"),
        ("/jobs?q=colour%3Ared", "is not a condition of a filter"),
        ("/jobs?before=x", "is not the id of a job"),
        ("/operations?before=x", "is not the id of an entry"),
        ("?range=1y", "range=24h"),
        ("/confirm", "There is no action"),
        ("/confirm?action=explode&id=1", "There is no action \"explode\""),
        ("/confirm?action=retry", "No job is selected"),
    ] {
        let answer = client.get(path).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{path}");
        answer.page().shows(text);
    }
    assert_eq!(client.get("/confirm?action=retry&id=x").await.status, StatusCode::NOT_FOUND);
    assert_eq!(client.post("/confirm", "%ff=%ff&action=\0").await.status, StatusCode::BAD_REQUEST);
}

async fn without_a_database_the_last_sample_is_shown(db: Db) {
    seed(&db).await;
    // The pages use connections of their own, through which the tables are gone.
    let client = Client::of(&db.again().await);
    client.page("").await;
    db.execute("alter table jobs.schema_migration rename to gone").await;
    let answer = client.get("").await;
    assert!(answer.status.is_server_error(), "{}", answer.status);
    let page = answer.page();
    page.shows("The last sample");
    page.shows("billing");
    // A page that was not opened before has nothing to show, and says so all the same.
    let answer = Client::of(&db.again().await).get("/jobs").await;
    assert!(answer.status.is_server_error());
    answer.page().hides("The last sample");
}

support::on_each_database! {
    what_is_not_there_is_said,
    a_malformed_request_is_told_what_is_allowed,
    without_a_database_the_last_sample_is_shown,
}
