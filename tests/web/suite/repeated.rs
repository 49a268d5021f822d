//! A form that is sent twice does what it says once: after a double click, a reload, or through two processes.

use axum::http::StatusCode;
use diesel_jobs::operator::JobFilter;
use diesel_jobs::schedule::CatchUp;
use diesel_jobs::schedule::NewSchedule;
use support::Db;

use crate::client::Client;
use crate::hostile::form_encoded;
use crate::seed::seed;

/// The form of a page that asks, as a browser sends it.
async fn form(client: &Client, query: &str) -> String {
    let page = client.page(&format!("/confirm?{query}")).await;
    let inputs = page.all("input").filter(|input| input.attributes.contains_key("name"));
    let pairs = inputs.map(|input| {
        let value = input.attributes.get("value").map(String::as_str).unwrap_or_default();
        format!("{}={}", input.attributes["name"], form_encoded(value))
    });
    pairs.collect::<Vec<_>>().join("&")
}

async fn jobs(db: &Db) -> u64 {
    db.database().operator.count(&JobFilter::default()).await.unwrap().jobs
}

async fn a_copy_is_enqueued_once(db: Db) {
    let seeded = seed(&db).await;
    let (client, other) = (Client::of(db.database()), Client::of(&db.again().await));
    let bad = client.get(&format!("/confirm?action=copy&id={}&request=forged", seeded.completed)).await;
    assert_eq!(bad.status, StatusCode::BAD_REQUEST);
    bad.page().shows("is not the key of a request");
    // A link cannot choose the key of a form.
    let chosen = "0-00000000-0000-4000-8000-000000000001";
    let form = form(&client, &format!("action=copy&id={}&request={chosen}", seeded.completed)).await;
    assert!(form.contains("request=") && !form.contains(chosen), "{form}");
    let before = jobs(&db).await;
    let (one, two) = tokio::join!(client.post("/confirm", &form), other.post("/confirm", &form));
    let again = client.post("/confirm", &form).await;
    assert_eq!(jobs(&db).await, before + 1);
    let copy = before + 1;
    for answer in [one, two, again] {
        assert_eq!(answer.status, StatusCode::OK, "{}", answer.body);
        let page = answer.page();
        assert!(page.contains("1 job: enqueued again") || page.contains("This was done already"), "{}", page.text);
        assert!(page.values("a", "href").any(|href| href == format!("/admin/jobs/jobs/{copy}")), "{}", page.text);
    }
    let page = client.post("/confirm", &form).await.page();
    page.shows("This was done already");
    page.shows("ada did it at");
    // Another form is another wish.
    let form = self::form(&client, &format!("action=copy&id={}", seeded.completed)).await;
    client.post("/confirm", &form).await.page().shows("1 job: enqueued again");
    assert_eq!(jobs(&db).await, before + 2);
    assert_eq!(client.post("/confirm", "action=copy&id=1&request=x").await.status, StatusCode::BAD_REQUEST);
}

async fn an_operation_starts_once(db: Db) {
    seed(&db).await;
    let client = Client::of(db.database());
    let form = form(&client, "action=copy&all=yes&filter=kind%3Asend_mail").await;
    for _ in 0..2 {
        let answer = client.post("/confirm", &form).await;
        assert_eq!(answer.headers["location"], "/admin/jobs/operations");
    }
    assert_eq!(db.database().operator.operations(None, 9).await.unwrap().len(), 1);
}

async fn a_schedule_is_triggered_and_made_up_once(db: Db) {
    let schedule = NewSchedule {
        name: "nightly".to_owned(),
        kind: "report".to_owned(),
        expression: "0 0 2 * * *".to_owned(),
        timezone: "UTC".to_owned(),
        catch_up: CatchUp::Skip,
        job: Default::default(),
    };
    db.database().operator.add_schedule(&schedule, "ada").await.unwrap();
    let client = Client::of(db.database());
    let trigger = form(&client, "action=schedule-trigger&name=nightly").await;
    client.post("/confirm", &trigger).await.page().shows("A job of nightly is enqueued");
    client.post("/confirm", &trigger).await.page().shows("This was done already");
    assert_eq!(jobs(&db).await, 1);
    // A form with a mistake keeps its key, because nothing was done.
    let backfill = form(&client, "action=schedule-backfill&name=nightly").await;
    let key = backfill.split('&').find(|pair| pair.starts_with("request=")).unwrap();
    let wrong = format!("action=schedule-backfill&name=nightly&from=x&until=&{key}");
    let page = client.post("/confirm", &wrong).await.page();
    let kept = page.values("input", "value").any(|value| key.ends_with(&form_encoded(value)) && !value.is_empty());
    assert!(kept, "{}", page.text);
    let days = format!("action=schedule-backfill&name=nightly&from=2026-01-01+00%3A00&until=2026-01-03+00%3A00&{key}");
    client.post("/confirm", &days).await.page().shows("2 jobs of nightly enqueued");
    client.post("/confirm", &days).await.page().shows("This was done already");
    assert_eq!(jobs(&db).await, 3);
}

support::on_each_database! {
    a_copy_is_enqueued_once,
    an_operation_starts_once,
    a_schedule_is_triggered_and_made_up_once,
}
