//! What the pages show of limits, rates, sequences, permits and unique keys, and what they change.

use std::time::Duration;

use axum::http::StatusCode;
use diesel_jobs::operator::Action;
use diesel_jobs::rules::{Limit, Rate, Sequence, Unique};
use diesel_jobs::{JobState, NewJob};
use support::Db;

use crate::client::Client;

fn limited() -> NewJob {
    NewJob::raw("charge", "{}").rule(Limit::new("stripe", 2).key("ada")).unwrap()
}

/// How many entries of the audit `ada` has made with this action.
async fn audited(db: &Db, action: &str) -> i64 {
    db.number(&format!("select count(*) as number from jobs.audit where actor = 'ada' and action = '{action}'")).await
}

async fn a_limit_is_set_and_reset(db: Db) {
    let client = Client::of(db.database());
    let held = db.enqueue(limited()).await;
    let page = client.page("/confirm?action=limit-set&name=stripe").await;
    page.shows("How many jobs of each key of the limit stripe run at once?");
    assert!(["most", "reason"].iter().all(|name| page.values("input", "name").any(|field| field == *name)));
    for wrong in ["", "-1", "x", "10001", "1.5"] {
        let answer = client.post("/confirm", &format!("action=limit-set&name=stripe&most={wrong}")).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{wrong}");
        assert!(answer.body.contains("is not a number of jobs"), "{wrong}: {}", answer.body);
    }
    let answer = client.post("/confirm", "action=limit-set&name=stripe&most=0&reason=the+bank+is+closed").await;
    assert_eq!(
        (answer.status, &answer.headers["location"]),
        (StatusCode::SEE_OTHER, &"/admin/jobs/limits".parse().unwrap())
    );
    let page = client.page("/limits").await;
    for text in ["set by ada to 0 at ", "the bank is closed", "0 of 0", "full"] {
        page.shows(text);
    }
    assert!(page.values("button", "value").any(|value| value == "limit-reset"));
    assert_eq!(db.storage().admit(true).await.unwrap().admitted, 0);
    let page = client.page(&format!("/jobs/{held}")).await;
    page.shows("0 at once of stripe (2 in the code), key [\"ada\"]; set by ada to 0 at ");
    page.shows("so none starts");
    assert!(
        client.page("/confirm?action=limit-set&name=stripe").await.values("input", "value").any(|value| value == "0")
    );

    client.page("/confirm?action=limit-reset&name=stripe").await.shows("The number that was set is removed.");
    assert_eq!(client.post("/confirm", "action=limit-reset&name=stripe").await.status, StatusCode::SEE_OTHER);
    client.page("/limits").await.hides("set by ada");
    client.page("/confirm?action=limit-reset&name=stripe").await.shows("There is nothing to do.");
    assert_eq!(db.storage().admit(true).await.unwrap().admitted, 1);
    assert_eq!((audited(&db, "set_limit").await, audited(&db, "reset_limit").await), (1, 1));
    assert_eq!(client.post("/confirm", "action=limit-set&most=1").await.status, StatusCode::BAD_REQUEST);
}

async fn a_halted_sequence_is_shown_and_skipped_or_retried(db: Db) {
    let client = Client::of(db.database());
    client.page("/limits").await.shows("No sequence is halted.");
    let ordered = || NewJob::raw("pack", "{}").rule(Sequence::new("orders").key("a<b>")).unwrap();
    let first = db.enqueue(ordered()).await;
    let second = db.enqueue(ordered()).await;
    let halt = async || {
        assert_eq!(db.storage().admit(true).await.unwrap().admitted, 1);
        db.database().operator.act(&Action::Discard, &[first], "bert").await.unwrap();
    };
    halt().await;
    let page = client.page("/limits").await;
    for text in ["orders", "a<b>", "Discarded job"] {
        page.shows(text);
    }
    assert!(page.values("a", "href").any(|href| href == format!("/admin/jobs/jobs/{first}")));
    assert!(["retry", "sequence-skip"].iter().all(|name| page.values("button", "value").any(|value| value == *name)));
    // The page of the discarded job says it, too, with both actions.
    let at = format!("/jobs/{first}");
    let page = client.page(&at).await;
    page.shows("This job halts the sequence orders for key [\"a<b>\"]: 1 job waits behind it.");
    assert_eq!(page.texts("span.offers", "a"), ["Retry this job", "Continue without it"]);
    let reader = client.with_rights("read").page(&at).await;
    reader.shows("This job halts the sequence orders");
    assert_eq!(reader.all("button").count() + reader.texts("span.offers", "a").len(), 0);
    let page = client.page("/limits").await;
    // The number of a sequence cannot be set.
    assert!(!page.values("button", "value").any(|value| value == "limit-set"));
    page.shows("a sequence: one at once");
    let answer = client.post("/confirm", "action=limit-set&name=orders&most=3").await;
    assert_eq!(answer.status, StatusCode::BAD_REQUEST);
    answer.page().shows("is a sequence");
    // The form of the page has the name and the key of the sequence, too.
    let retry = format!("action=retry&id={first}&name=orders&key=%5B%22a%3Cb%3E%22%5D");
    client.page(&format!("/confirm?{retry}")).await.shows("Retry 1 job?");
    client.post("/confirm", &retry).await.page().shows("1 job");
    client.page(&at).await.hides("halts the sequence");
    halt().await;

    let skip = format!("action=sequence-skip&id={first}&name=orders&key=%5B%22a%3Cb%3E%22%5D");
    let page = client.page(&format!("/confirm?{skip}")).await;
    page.shows("Continue the sequence orders");
    assert!(page.values("a", "href").any(|href| href == format!("/admin/jobs/jobs/{first}")));
    assert_eq!(client.post("/confirm", &skip).await.status, StatusCode::SEE_OTHER);
    client.page("/limits").await.shows("No sequence is halted.");
    client.page(&format!("/confirm?{skip}")).await.shows("There is nothing to do.");
    client.post("/confirm", &skip).await.page().shows("is not halted for key");
    client.page(&at).await.hides("halts the sequence");
    assert_eq!((db.storage().admit(true).await.unwrap().admitted, audited(&db, "skip").await), (1, 1));
    assert_eq!(db.record(second).await.state, JobState::Available);
}

async fn a_rate_is_shown_with_the_time_of_its_next_token(db: Db) {
    let client = Client::of(db.database());
    client.page("/limits").await.shows("No job waits for a token.");
    let rated = || NewJob::raw("call", "{}").rule(Rate::new("api", 6, Duration::from_secs(3600)).key("a<b>")).unwrap();
    db.enqueue(rated()).await;
    let held = db.enqueue(rated()).await;
    assert_eq!(db.storage().admit(true).await.unwrap().admitted, 1);
    let page = client.page("/limits").await;
    for text in ["api", "a<b>", "6 in 1h, 1 at once", "in 10 min"] {
        page.shows(text);
    }
    db.database().operator.cancel(held).await.unwrap();
    client.page("/limits").await.shows("No job waits for a token.");
}

async fn a_permit_that_a_job_does_not_need_is_released(db: Db) {
    let client = Client::of(db.database());
    let id = db.enqueue(limited()).await;
    let page = format!("/jobs/{id}");
    let offers = async || client.page(&page).await.values("button", "value").any(|value| value == "release-permit");
    assert_eq!(db.storage().admit(true).await.unwrap().admitted, 1);
    assert!(!offers().await, "an available job needs its permit");
    let form = format!("action=release-permit&id={id}");
    let refused = client.page(&format!("/confirm?{form}")).await;
    refused.shows("is available and needs its permit");
    refused.shows("There is nothing to do.");
    client.post("/confirm", &form).await.page().shows("Nothing was changed");
    db.database().operator.cancel(id).await.unwrap();
    db.execute(&format!(
        "insert into jobs.permit (job_id, limit_name, limit_key) values ({id}, 'stripe', '[\"ada\"]')"
    ))
    .await;
    assert!(offers().await);
    client.page(&format!("/confirm?{form}")).await.shows("does not need its permits: stripe, key [\"ada\"]. The");
    client.post("/confirm", &form).await.page().shows(&format!("The permits of job {id} are free"));
    assert!(!offers().await);
    assert_eq!(audited(&db, "release_permit").await, 1);
    assert_eq!(client.post("/confirm", "action=release-permit").await.status, StatusCode::BAD_REQUEST);
}

async fn the_unique_key_of_a_job_is_shown_and_released(db: Db) {
    let client = Client::of(db.database());
    let id =
        db.enqueue(NewJob::raw("report", r#"{"day": "monday"}"#).unique(Unique::new().by(&["day"])).unwrap()).await;
    let page = client.page(&format!("/jobs/{id}")).await;
    page.shows("[\"monday\"] of ");
    page.shows("an enqueue with the same key");
    assert!(page.values("button", "value").any(|value| value == "release-key"));
    let form = format!("action=release-key&id={id}");
    client.page(&format!("/confirm?{form}")).await.shows("The key is [\"monday\"] of report.");
    client.post("/confirm", &form).await.page().shows("no longer has its unique key");
    let page = client.page(&format!("/jobs/{id}")).await;
    page.hides("Unique key");
    assert!(!page.values("button", "value").any(|value| value == "release-key"));
    client.page(&format!("/confirm?{form}")).await.shows("There is nothing to do.");
    client.post("/confirm", &form).await.page().shows("has no unique key");
    assert_eq!((audited(&db, "release_key").await, db.record(id).await.state), (1, JobState::Available));
}

/// A number that was not counted to its end says so, in the same way on all pages.
async fn numbers_that_are_not_counted_to_the_end_say_so(db: Db) {
    db.conn().await.enqueue_all((0..1004).map(|_| limited())).await;
    assert_eq!(db.storage().admit(true).await.unwrap().admitted, 2);
    let client = Client::of(db.database());
    for path in ["/limits", "/help"] {
        let page = client.page(path).await;
        let plus = page.all("span").find(|span| span.attributes.get("class").is_some_and(|class| class == "plus"));
        let plus = plus.unwrap_or_else(|| panic!("{path}: {}", page.text));
        assert_eq!(plus.text, "1,000+", "{path}");
        assert!(plus.attributes["title"].starts_with("This many or more"), "{path}");
    }
}

support::on_each_database! {
    numbers_that_are_not_counted_to_the_end_say_so,
    a_limit_is_set_and_reset,
    a_halted_sequence_is_shown_and_skipped_or_retried,
    a_rate_is_shown_with_the_time_of_its_next_token,
    a_permit_that_a_job_does_not_need_is_released,
    the_unique_key_of_a_job_is_shown_and_released,
}
