//! Ten thousand hostile strings as kind, queue, tag, error and argument: none of them becomes markup.

use diesel_jobs::NewJob;
use support::Db;

use crate::client::Client;

/// Pieces that end, begin or escape something in HTML, in scripts, in addresses and in event streams.
const PIECES: &[&str] = &[
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "\"><svg/onload=alert(1)>",
    "' onmouseover='alert(1)",
    "</title>",
    "</textarea>",
    "<!--",
    "-->",
    "<!--/live-->",
    "<!--live-->",
    "]]>",
    "javascript:alert(1)",
    "&lt;b&gt;",
    "&#60;i&#62;",
    "&",
    "\"",
    "'",
    "`",
    "<",
    ">",
    "\u{202e}",
    "\u{2028}",
    "\n",
    "\r\n\r\n",
    "\n\nevent: page\ndata: <b>x</b>\n\n",
    "{{7*7}}",
    "{% raw %}",
    "${7*7}",
    "<iframe srcdoc='<script>alert(1)</script>'>",
    "<base href=//evil.example>",
    "<style>*{display:none}</style>",
    "<form action=//evil>",
    "\\",
    "%3Cscript%3E",
    "a=b&c=d",
    "#",
    "?",
    "/../..",
    "//evil.example",
    "\u{feff}",
    "é",
    "日本",
    "🦀",
    "<a href=x>",
    "<math><mtext>",
    "</pre>",
    "</main>",
    "<meta http-equiv=refresh content=0>",
    "x",
    "kind",
    " ",
];

/// How many strings there are.
pub(crate) const COUNT: usize = 10_000;

/// The strings, the same in every run, each at most 200 bytes long.
pub(crate) fn strings() -> Vec<String> {
    let mut state = 0x6a6f_6273_u64;
    let mut next = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(state >> 33).unwrap() % below
    };
    let mut strings: Vec<String> = PIECES.iter().map(|piece| (*piece).to_owned()).collect();
    while strings.len() < COUNT {
        let mut text = String::new();
        for _ in 0..=next(5) {
            let piece = PIECES[next(PIECES.len())];
            if text.len() + piece.len() <= 200 {
                text += piece;
            }
        }
        strings.push(text);
    }
    strings
}

/// Enqueues jobs with five of the strings each: kind, queue, tag, argument, and the text of a failure, which SQL
/// inserts.
pub(crate) async fn plant(db: &Db) {
    let jobs: Vec<NewJob> = strings()
        .chunks(5)
        .map(|chunk| {
            let [kind, queue, tag, arg, _] = chunk else { unreachable!("the count is a multiple of 5") };
            let mut job = NewJob::raw(kind.clone(), serde_json::json!({ arg.as_str(): arg, "x": kind }).to_string());
            job.queue = queue_name(queue).into();
            job.tags = vec![tag.clone()];
            job
        })
        .collect();
    let mut conn = db.conn().await;
    let ids = conn.enqueue_all(jobs).await;
    let errors: Vec<String> = strings().chunks(5).map(|chunk| chunk[4].replace('\'', "''")).collect();
    for (ids, errors) in ids.chunks(500).zip(errors.chunks(500)) {
        let values: Vec<String> =
            ids.iter().zip(errors).map(|(id, error)| format!("({id}, 1, 'error', '{error}')")).collect();
        conn.execute(&format!(
            "insert into jobs.job_error (job_id, attempt, kind, message) values {}",
            values.join(", ")
        ))
        .await;
    }
}

async fn hostile_strings_are_texts(db: Db) {
    plant(&db).await;
    let client = Client::of(db.database());
    let page = client.page("").await;
    page.shows("<script>alert(1)</script>");
    let mut seen = 0;
    for id in (1..=i64::try_from(COUNT / 5).unwrap()).step_by(if db.is_postgres() { 7 } else { 13 }) {
        // The parser of the tests panics on markup that is not the dashboard's.
        let page = client.page(&format!("/jobs/{id}")).await;
        page.shows("Enqueued");
        seen += 1;
    }
    assert!(seen > 100);
    for text in strings().iter().step_by(97) {
        let query: String = form_encoded(text);
        client.page(&format!("/jobs?kind={query}")).await;
        client.page(&format!("/jobs?queue={}", form_encoded(&queue_name(text)))).await;
        for path in [format!("/jobs/{query}"), format!("/confirm?action={query}"), format!("/jobs?{query}={query}")] {
            client.get(&path).await.page();
        }
    }
    assert_eq!(client.page("/jobs").await.values("input", "type").filter(|kind| *kind == "checkbox").count(), 50);
}

/// The text as the name of a queue, which has no `*`.
fn queue_name(text: &str) -> String {
    text.replace('*', "+")
}

/// The text as a value in an address.
pub(crate) fn form_encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

support::on_each_database! { hostile_strings_are_texts }
