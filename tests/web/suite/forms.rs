//! A form with a mistake is shown again: with what was written, the message beside its field, and status 400.

use axum::http::StatusCode;
use diesel_jobs::schedule::CatchUp;
use diesel_jobs::schedule::NewSchedule;
use diesel_jobs_core::storage::CONDITIONS;
use support::Db;

use crate::client::Client;
use crate::hostile::form_encoded;
use crate::html::{Element, Page};
use crate::seed::seed;

/// The element with this name that a reader fills in.
fn field<'p>(page: &'p Page, name: &str) -> &'p Element {
    let is_wanted = |element: &&Element| {
        ["input", "textarea", "select"].contains(&element.name.as_str())
            && element.attributes.get("type").is_none_or(|kind| kind != "hidden")
            && element.attributes.get("name").is_some_and(|other| other == name)
    };
    page.elements.iter().find(is_wanted).unwrap_or_else(|| panic!("there is no field {name}: {}", page.text))
}

/// The message is beside this field, and refers to it. No other field has a message.
#[track_caller]
fn is_beside(page: &Page, name: &str, text: &str) {
    let field = field(page, name);
    assert_eq!(field.attributes.get("aria-invalid").map(String::as_str), Some("true"), "{name}");
    let described = field.attributes["aria-describedby"].split(' ').collect::<Vec<_>>();
    let id = format!("f-{name}-problem");
    assert!(described.contains(&id.as_str()), "{name}: {described:?}");
    let problem = page.elements.iter().find(|element| element.attributes.get("id") == Some(&id)).unwrap();
    assert!(problem.text.contains(text), "{name}: {:?} instead of {text:?}", problem.text);
    let wrong = page.elements.iter().filter(|element| element.attributes.contains_key("aria-invalid"));
    assert_eq!(wrong.count(), 1, "{name}");
    // Each field has a label, and what describes it exists.
    for element in
        page.elements.iter().filter(|element| element.attributes.get("id").is_some_and(|id| id == &format!("f-{name}")))
    {
        assert!(page.values("label", "for").any(|target| target == element.attributes["id"]), "{name}");
    }
    for id in described {
        assert_eq!(page.elements.iter().filter(|it| it.attributes.get("id").is_some_and(|own| own == id)).count(), 1);
    }
}

async fn a_mistake_stands_beside_its_field_with_what_was_written(db: Db) {
    let jobs = seed(&db).await;
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
    let add = |change: &str| {
        format!(
            "action=schedule-add&kind=report&queue=slow&catch_up=last{change}{}",
            if change.contains("cron=") { "" } else { "&cron=0+*+*+*+*" }
        )
    };
    let long = "x".repeat(600);
    let id = jobs.scheduled;
    let forms = [
        (add("&name=a&cron=every+hour"), "cron", "every hour", "every hour"),
        (add("&name=a&timezone=Mars"), "timezone", "Mars", "nknown time zone"),
        (add("&name=a&args=%5B1%5D"), "args", "[1]", "must be a JSON object"),
        (add("&name=a&priority=high"), "priority", "high", "from -32768 to 32767"),
        (add("&name=a&max_attempts=0"), "max_attempts", "0", "from 1 to 32767"),
        (add("&name=nightly"), "name", "nightly", "The schedule nightly exists already"),
        (add(&format!("&name={long}")), "name", &long, "must not be longer than"),
        (
            "action=schedule-change&name=nightly&cron=61+*+*+*+*&timezone=UTC&catch_up=all".into(),
            "cron",
            "61 * * * *",
            "minute",
        ),
        (format!("action=schedule-pause&name=nightly&reason={long}"), "reason", &long, "500 characters"),
        (
            "action=schedule-backfill&name=nightly&from=yesterday&until=2026-01-04+00%3A00".into(),
            "from",
            "yesterday",
            "is not a time",
        ),
        (
            "action=schedule-backfill&name=nightly&from=2026-01-01+00%3A00&until=2999-01-01+00%3A00".into(),
            "until",
            "2999-01-01 00:00",
            "must have passed",
        ),
        ("action=limit-set&name=stripe&most=many&reason=refunds".into(), "most", "many", "is not a number of jobs"),
        ("action=queue-slots&name=mail&slots=7.5".into(), "slots", "7.5", "is not a number of slots"),
        (format!("action=queue-pause&name=mail&reason={long}"), "reason", &long, "500 characters"),
        ("action=queue-drain&name=mail&reason=a%0Ab".into(), "reason", "a\nb", "one line"),
        ("action=kind-pause&name=charge&reason=a%07b".into(), "reason", "a\u{7}b", "one line"),
        (format!("action=move&id={id}&queue={long}"), "queue", &long, "longer than 200 bytes"),
        (format!("action=move&id={id}&queue="), "queue", "", "is empty"),
        (format!("action=reprioritise&id={id}&priority=high"), "priority", "high", "is not a priority"),
        ("action=queue-purge&name=billing&name_typed=mail".into(), "name_typed", "mail", "Nothing was deleted"),
        (
            "action=reprioritise&all=yes&filter=kind%3Acharge&priority=1.5".into(),
            "priority",
            "1.5",
            "is not a priority",
        ),
    ];
    for (form, name, written, text) in forms {
        let answer = client.post("/confirm", &form).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{form}: {}", answer.body);
        let page = answer.page();
        page.shows("Nothing was changed.");
        is_beside(&page, name, text);
        let shown = field(&page, name);
        let value = if shown.name == "textarea" { shown.text.trim() } else { shown.attributes["value"].as_str() };
        assert_eq!(value, written, "{form}");
        // The form can be sent again as it stands: nothing else of it is lost.
        for pair in form.split('&').filter(|pair| !pair.ends_with('=')) {
            let (other, _) = pair.split_once('=').unwrap();
            assert!(
                page.elements.iter().any(|it| it.attributes.get("name").is_some_and(|own| own == other)),
                "{form}: {other}"
            );
        }
    }
    assert_eq!(db.number("select count(*) as number from jobs.audit where actor = 'ada'").await, 1, "the schedule");
    let page = client.post("/confirm", &add("&name=a&cron=x&args=%7B%22day%22%3A+1%7D")).await.page();
    assert_eq!(field(&page, "args").text.trim(), "{\"day\": 1}");
    let chosen: Vec<_> = page.all("option").filter(|option| option.attributes.contains_key("selected")).collect();
    assert_eq!((chosen.len(), &*chosen[0].text), (1, "last"));
}

/// A user without the right does not learn what is wrong with the form.
async fn a_form_with_a_mistake_needs_the_right_too(db: Db) {
    seed(&db).await;
    let reader = Client::of(db.database()).with_rights("read");
    for form in ["action=queue-slots&name=mail&slots=x", "action=limit-set&name=stripe&most=x"] {
        assert_eq!(reader.post("/confirm", form).await.status, StatusCode::FORBIDDEN, "{form}");
    }
}

async fn a_wrong_filter_stands_in_its_field_again(db: Db) {
    seed(&db).await;
    let client = Client::of(db.database());
    for (query, name, written, text) in [
        ("q=priority%3Ahigh", "q", "priority:high", "priority: \"high\" is not a whole number"),
        ("q=stat%3Adiscarded", "q", "stat:discarded", "did you mean state?"),
        ("q=enqueued_before%3Ayesterday", "q", "enqueued_before:yesterday", "enqueued_before: "),
        ("q=args.card%3A4111", "q", "args.card:4111", "card is a secret argument"),
        // A condition that stands in the address as a filter.
        ("priority=high", "q", "priority:high", "priority: \"high\" is not a whole number"),
        ("q=id%3A1&args.card=4111", "q", "id:1 args.card:4111", "card is a secret argument"),
    ] {
        let answer = client.get(&format!("/jobs?kind=charge&tag=vip&{query}")).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{query}");
        let page = answer.page();
        is_beside(&page, name, text);
        assert!(!page.contains("q:"), "{query}: {}", page.text);
        for (name, written) in [(name, written), ("kind", "charge"), ("tag", "vip")] {
            assert_eq!(field(&page, name).attributes["value"], written, "{query}");
        }
        // The tab stays chosen, too.
        let page = client.get(&format!("/jobs?state=discarded&{query}")).await.page();
        let states = page.all("input").filter(|input| input.attributes.get("name").is_some_and(|name| name == "state"));
        assert_eq!(
            states.map(|input| input.attributes["value"].as_str()).collect::<Vec<_>>(),
            ["discarded"],
            "{query}"
        );
        // No job is shown, because the filter does not say which.
        assert_eq!(page.all("table").count(), 0, "{query}");
    }
    let long = "x".repeat(2000);
    for name in ["kind", "queue", "tag", "error"] {
        let answer = client.get(&format!("/jobs?{name}={long}")).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{name}");
        is_beside(&answer.page(), name, "2000 bytes");
    }
}

async fn an_unknown_filter_is_said_in_the_form(db: Db) {
    let jobs = seed(&db).await;
    let client = Client::of(db.database());
    for name in ["colour", "Kind", "args", "states"] {
        let answer = client.get(&format!("/jobs?kind=charge&{name}=red&tag=vip")).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{name}");
        let page = answer.page();
        page.shows(&format!("No jobs are shown. There is no filter \"{name}\". The filters are: state, kind"));
        assert_eq!((field(&page, "kind").attributes["value"].as_str(), page.all("table").count()), ("charge", 0));
        assert_eq!(field(&page, "tag").attributes["value"], "vip");
    }
    // A condition is one of the conditions, wherever it stands.
    for (query, q, job) in [
        (format!("id={}", jobs.retrying), format!("id:{}", jobs.retrying), jobs.retrying),
        ("q=state%3Acompleted&args.to=ada".to_owned(), "state:completed args.to:ada".to_owned(), jobs.completed),
        ("priority=0&kind=report".to_owned(), "priority:0".to_owned(), jobs.retrying),
    ] {
        let page = client.page(&format!("/jobs?{query}")).await;
        assert_eq!(page.texts("tbody", "th"), [job.to_string()], "{query}");
        assert_eq!(field(&page, "q").attributes["value"], q);
        // The tabs keep it.
        let last = encoded(q.rsplit(' ').next().unwrap());
        assert!(page.values("a", "href").any(|href| href.contains("state=running") && href.contains(&last)), "{query}");
    }
}

async fn fields_suggest_the_names_that_there_are(db: Db) {
    seed(&db).await;
    let client = Client::of(db.database());
    for path in ["/jobs", "/jobs?colour=red"] {
        let page = client.get(path).await.page();
        for (name, values) in [("kind", ["charge", "report", "send_mail"]), ("queue", ["billing", "mail", "reports"])] {
            let list = &field(&page, name).attributes["list"];
            assert!(page.values("datalist", "id").any(|id| id == list), "{path}: {list}");
            for value in values {
                assert!(page.values("option", "value").any(|option| option == value), "{path}: {value}");
            }
        }
    }
}

async fn each_condition_stands_beside_the_box_with_an_example_that_works(db: Db) {
    seed(&db).await;
    let client = Client::of(db.database());
    let page = client.page("/jobs").await;
    let links: Vec<&str> = page.values("a", "href").filter(|href| href.starts_with("/admin/jobs/jobs?q=")).collect();
    assert_eq!(links.len(), CONDITIONS.len());
    for (condition, link) in CONDITIONS.iter().zip(links) {
        page.shows(condition.meaning);
        assert_eq!(link, format!("/admin/jobs/jobs?q={}", encoded(condition.example)));
        let found = client.page(link.strip_prefix("/admin/jobs").unwrap()).await;
        assert_eq!(field(&found, "q").attributes["value"], condition.example);
    }
    // Others that the command line has as options, and that have no field of their own.
    let found = async |q: &str| client.page(&format!("/jobs?q={}", form_encoded(q))).await.texts("tbody", "th").len();
    assert_eq!(found("state:retrying,discarded priority:0").await, 2);
    assert_eq!(found("kind:send_mail run_at_after:0s").await, 1);
}

/// As the page encodes an address.
pub(crate) fn encoded(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"*-._".contains(&byte);
    let one = |byte| match byte {
        b' ' => "+".to_owned(),
        byte if plain(byte) => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    };
    text.bytes().map(one).collect()
}

support::on_each_database! {
    a_mistake_stands_beside_its_field_with_what_was_written,
    a_form_with_a_mistake_needs_the_right_too,
    a_wrong_filter_stands_in_its_field_again,
    an_unknown_filter_is_said_in_the_form,
    fields_suggest_the_names_that_there_are,
    each_condition_stands_beside_the_box_with_an_example_that_works,
}
