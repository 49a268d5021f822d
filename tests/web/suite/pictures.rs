//! Pictures of the pages, with a database that looks like one in use. `cargo xtask screenshots` puts those of the guide
//! into the documentation; every run leaves all of them under `target/screenshots`.

use std::fs;
use std::path::PathBuf;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use diesel_jobs::operator::{Action, JobFilter};
use diesel_jobs::rules::Limit;
use diesel_jobs::schedule::CatchUp;
use diesel_jobs::schedule::NewSchedule;
use diesel_jobs::schedule::ScheduledJob;
use diesel_jobs::{JobState, NewJob};
use support::{Db, Running};

use crate::browser::driver::Browser;
use crate::browser::serve;
use crate::jobs::registry;
use crate::seed::seed;

/// Where pictures go.
fn directory() -> PathBuf {
    std::env::var_os("JOBS_SCREENSHOTS")
        .map_or_else(|| PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/screenshots")), PathBuf::from)
}

/// A week of history, with a night in it in which no worker ran, and waiting jobs of several kinds.
async fn look_used(db: &Db) {
    let mut conn = db.conn().await;
    for (queue, kind, rate, wait, run) in [
        ("mail", "send_mail", 420, 0.04, 0.12),
        ("billing", "charge", 60, 0.2, 0.8),
        ("reports", "report", 6, 1.5, 9.0),
        ("search", "index_page", 900, 0.02, 0.03),
    ] {
        // Bins as the workers write them: most times around the middle, some much longer.
        let bins = |middle: f64| {
            format!(
                "(select array_agg(greatest(0, round(n * {rate} * 0.09 * exp(-power(bin - {at}, 2) / 8.0) + \
                 case when bin between {at} + 5 and {at} + 8 then n * {rate} * 0.01 else 0 end))::int order by bin) \
                 from generate_series(0, 40) bin)",
                at = (2.0 * (middle / 0.001_f64).log2()).round(),
            )
        };
        conn.execute(&format!(
            "insert into jobs.history (at, minutes, queue, kind, completed, retried, discarded, waits, runs, wait_seconds, run_seconds)
             select at, 1, '{queue}', '{kind}', round({rate} * n), round({rate} * n * bad), round({rate} * n * bad / 10),
                    {waits}, {runs}, {rate} * n * {wait}, {rate} * n * {run}
             from (select at, 0.55 + 0.35 * sin(extract(epoch from at) / 13751.0) + 0.1 * random() as n,
                          case when extract(epoch from at)::bigint / 60 % 190 < 17 then 0.09 else 0.006 end as bad
                   from generate_series(date_trunc('minute', now()) - interval '7 days', date_trunc('minute', now()) - interval '1 minute',
                                        interval '1 minute') at
                   where at not between now() - interval '27 minutes' and now() - interval '23 minutes') shape
             where extract(epoch from at)::bigint / 60 % 3 = 0 or at > now() - interval '1 day'",
            waits = bins(wait),
            runs = bins(run),
        ))
        .await;
    }
    let more = (0..340).map(|number| {
        let mut job = match number % 4 {
            0 => NewJob::raw("index_page", format!(r#"{{"page":{number}}}"#)),
            1 => NewJob::raw("send_mail", format!(r#"{{"to":"user{number}@example.org"}}"#)),
            2 => NewJob::raw("charge", format!(r#"{{"order":{number},"card":"x"}}"#)),
            _ => NewJob::raw("resize_image", format!(r#"{{"image":{number},"width":640}}"#)),
        };
        job.queue = ["search", "mail", "billing", "images"][number % 4].into();
        job.priority = if number % 9 == 0 { 5 } else { 0 };
        job
    });
    conn.enqueue_all(more).await;
    // Failures in groups, jobs that run, and a second worker.
    for (kind, queue, number, message, fingerprint) in [
        ("charge", "billing", 214, "the bank did not answer within 30 s (order ' || n || ')", 11),
        ("send_mail", "mail", 61, "550 mailbox unavailable: user' || n || '@example.org", 12),
        ("index_page", "search", 9, "page ' || n || ': the body is no UTF-8, at byte ' || n * 7 || '", 13),
    ] {
        conn.execute(&format!(
            "with made as (
                 insert into jobs.finished (id, run_at, enqueued_at, claimed_at, finished_at, lease, state, priority, attempt, max_attempts, crashes, kind, queue, args)
                 select nextval('jobs.job_id'), now() - n * interval '11 minutes', now() - n * interval '11 minutes', now() - n * interval '10 minutes',
                        now() - n * interval '10 minutes', 3, 3, 0, 3, 3, 0, '{kind}', '{queue}', '{{}}'
                 from generate_series(1, {number}) n returning id, finished_at)
             insert into jobs.job_error (job_id, attempt, started_at, at, kind, message, fingerprint)
             select id, 3, finished_at, finished_at, 'error', '{message}', {fingerprint} from (select *, row_number() over () as n from made) numbered"
        ))
        .await;
    }
    conn.execute(
        "insert into jobs.worker (id, host, pid, queues, lease, started_at, version, slots, kinds)
         values ('018f4c1e-0000-7000-8000-000000000001', 'worker-2', 4711, '{search}', interval '1 day', now() - interval '3 days', '1.4.2',
                 '{\"search\":8}', '{index_page}');
         insert into jobs.running (id, run_at, enqueued_at, claimed_at, lease, priority, attempt, max_attempts, crashes, worker, kind, queue, args)
         select nextval('jobs.job_id'), now(), now(), now() - n * interval '17 seconds', 1, 0, 1, 25, 0, '018f4c1e-0000-7000-8000-000000000001',
                'index_page', 'search', '{}' from generate_series(1, 5) n",
    )
    .await;
}

/// What operators did.
async fn operate(db: &Db) {
    let operator = &db.database().operator;
    operator.pause_queue("billing", "ada", Some("the bank is down until noon")).await.unwrap();
    for (name, kind, expression, timezone) in [
        ("month-end", "report", "0 6 1 * *", "Europe/Paris"),
        ("newsletter", "send_mail", "30 8 * * MON", "America/New_York"),
    ] {
        let schedule = NewSchedule {
            name: name.to_owned(),
            kind: kind.to_owned(),
            expression: expression.to_owned(),
            timezone: timezone.to_owned(),
            catch_up: CatchUp::Last,
            job: ScheduledJob::default(),
        };
        operator.add_schedule(&schedule, "eve").await.unwrap();
    }
    operator.pause_schedule("newsletter", "ada", Some("summer")).await.unwrap();
    let failed = JobFilter { kinds: vec!["index_page".to_owned()], ..JobFilter::of_state(JobState::Discarded) };
    operator.start_operation(&Action::Retry, &failed, "ada").await.unwrap();
    while operator.step_operation(None, 100).await.unwrap().is_some() {}
    let images = JobFilter::of_queue("images");
    operator.start_operation(&Action::Reprioritise(-5), &images, "eve").await.unwrap();
}

/// Jobs that wait for limits.
async fn limit(db: &Db) {
    let mut conn = db.conn().await;
    for (limit, number) in [
        (Limit::new("image server", 4).key("eu-central"), 31),
        (Limit::new("image server", 4).key("us-east"), 3),
        (Limit::new("thumbnails", 2), 9),
    ] {
        let jobs = (0..number).map(|number| {
            let job = NewJob::raw("resize_image", format!(r#"{{"image":{number},"width":64}}"#));
            let mut job = job.rule(limit.clone()).unwrap();
            job.queue = "images".into();
            job
        });
        conn.enqueue_all(jobs).await;
    }
    db.storage().admit(true).await.unwrap();
}

async fn pictures(db: Db) {
    let jobs = seed(&db).await;
    look_used(&db).await;
    operate(&db).await;
    limit(&db).await;
    let worker = Running::start(db.worker(registry()).queue("mail", 16).queue("reports", 4));
    let at = serve(&db).await;
    let directory = directory();
    fs::create_dir_all(&directory).unwrap();
    let mut browser = Browser::start().await;
    let id = jobs.retrying;
    let pages = [
        ("overview", String::new()),
        ("overview-24h", "?range=24h".to_owned()),
        ("jobs", "/jobs?limit=20".to_owned()),
        ("job", format!("/jobs/{id}")),
        ("queues", "/queues".to_owned()),
        ("kinds", "/kinds".to_owned()),
        ("queue", "/queues/one?name=mail".to_owned()),
        ("kind", "/kinds/one?name=charge".to_owned()),
        ("limits", "/limits".to_owned()),
        ("workers", "/workers".to_owned()),
        ("schedules", "/schedules".to_owned()),
        ("confirm", format!("/confirm?action=retry&id={id}&id={}", jobs.discarded)),
        ("help", "/help".to_owned()),
        ("failures", "/failures".to_owned()),
        ("operations", "/operations".to_owned()),
        ("doctor", "/doctor".to_owned()),
        ("drain", "/queues/drain?queue=billing".to_owned()),
        ("schedule-add", "/confirm?action=schedule-add".to_owned()),
        ("purge", "/confirm?action=queue-purge&name=images".to_owned()),
    ];
    for (scheme, width) in [("light", 1280), ("dark", 1280), ("phone", 320)] {
        browser.scheme(if scheme == "dark" { "dark" } else { "light" }).await;
        browser.size(width, if width == 320 { 720 } else { 800 }).await;
        for (name, path) in &pages {
            browser.open(&format!("{at}{path}")).await;
            let picture = BASE64_STANDARD.decode(browser.picture(width == 320).await).unwrap();
            assert!(picture.len() > 1000, "{name}");
            fs::write(directory.join(format!("{name}-{scheme}.png")), picture).unwrap();
        }
    }
    worker.stop().await;
}

support::on_postgres! { pictures }
