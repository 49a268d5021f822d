//! What the pages say about queues that need an operator: paused queues, queues that no worker serves, and queues that
//! are drained without workers.

use chrono::{TimeDelta, Utc};
use diesel_jobs::enqueue::RunAt;
use diesel_jobs::{JobState, NewJob, job};
use support::{Db, Running, until};

use crate::client::{Client, dashboard};
use crate::html::Page;
use crate::jobs::registry;
use crate::seed::seed;

/// What operators have set, as the overview lists it beside what the doctor has found.
fn set_by_operators(page: &Page) -> Vec<String> {
    let is_setting = |line: &String| ["queue ", "kind ", "and "].iter().any(|start| line.starts_with(start));
    page.texts("section.notice warn", "li").into_iter().filter(is_setting).collect()
}

async fn the_overview_names_paused_queues_and_those_without_a_worker(db: Db) {
    seed(&db).await;
    let client = Client::of(db.database());
    let page = client.page("").await;
    page.hides("Set by operators");
    // Without any worker, one notice is enough.
    page.shows("No worker is alive.");
    page.hides("No live worker claims");
    let operator = &db.database().operator;
    operator.pause_queue("empty", "eve", Some("nothing yet")).await.unwrap();
    operator.pause_queue("mail", "bob", None).await.unwrap();
    let page = client.page("").await;
    page.shows("Set by operators");
    let set = set_by_operators(&page);
    assert!(
        matches!(&*set, [one, other] if one.starts_with("queue empty paused since") && one.ends_with("by eve: nothing yet")
            && other.starts_with("queue mail paused since") && other.ends_with("by bob")),
        "{set:?}"
    );
    // A paused queue without jobs stands among the queues, too.
    assert!(page.texts("tbody", "th").iter().any(|name| name.starts_with("empty")), "{}", page.text);
    assert!(page.values("a", "href").any(|href| href == "/admin/jobs/queues/one?name=empty"));

    let worker = Running::start(db.worker(registry()).queue("elsewhere", 1));
    until("a worker", async || operator.workers().await.unwrap().pop()).await;
    let page = client.page("").await;
    page.shows("No live worker claims the waiting jobs of 2 queues.");
    for text in ["billing: 1 waiting", "reports: 1 waiting"] {
        page.shows(text);
    }
    let rows = page.texts("tbody", "th");
    let unserved = rows.iter().filter(|name| name.contains("No live worker claims its jobs."));
    assert_eq!(unserved.collect::<Vec<_>>().len(), 2, "{rows:?}");
    worker.stop().await;
    for name in ["a", "b", "c", "d", "e"] {
        operator.pause_queue(name, "eve", None).await.unwrap();
    }
    operator.pause_kind("charge", "eve", Some("the bank is closed")).await.unwrap();
    operator.set_limit("stripe", 2, "eve", None).await.unwrap();
    operator.set_slots("mail", Some(3), "eve").await.unwrap();
    let set = set_by_operators(&client.page("").await);
    assert!(set[7].starts_with("kind charge paused"), "what stops jobs comes first: {set:?}");
    assert_eq!((set.len(), &*set[8]), (9, "and 2 more"));
}

async fn the_overview_says_why_jobs_wait_for_long(db: Db) {
    let client = Client::of(db.database());
    let worker = Running::start(db.worker(registry()).queue("mail", 1).queue("quick", 1));
    until("a worker", async || db.database().operator.workers().await.unwrap().pop()).await;
    let waiting = |queue: &'static str, minutes| {
        let mut job = NewJob::raw("unheard_of", "{}");
        job.queue = queue.into();
        job.run_at = RunAt::Exactly(Utc::now() - TimeDelta::minutes(minutes));
        job
    };
    db.enqueue(waiting("mail", 20)).await;
    let oldest = db.enqueue(waiting("mail", 90)).await;
    db.enqueue(waiting("quick", 0)).await;
    let page = client.page("").await;
    let waits = page.texts("section.notice warn", "li");
    let [wait] = &*waits.iter().filter(|line| line.contains("for 90 min. ")).collect::<Vec<_>>() else {
        panic!("{waits:?}")
    };
    assert!(
        wait.starts_with(&format!("mail: job {oldest} for 90 min. 1 live worker serves queue mail"))
            && wait.contains("no kind unheard_of")
            && wait.contains("Deploy a program that has the kind unheard_of"),
        "{wait}"
    );
    let job = format!("/admin/jobs/jobs/{oldest}");
    for path in ["", "/queues", "/queues/one?name=mail"] {
        assert!(client.page(path).await.values("a", "href").any(|href| href == job), "{path}");
    }
    // The page says who has paused it.
    db.database().operator.pause_queue("mail", "eve", None).await.unwrap();
    client.page("").await.hides("for 90 min");
    worker.stop().await;
}

async fn a_queue_and_a_kind_have_pages_of_their_own(db: Db) {
    seed(&db).await;
    let operator = &db.database().operator;
    operator.pause_kind("charge", "eve", Some("the bank is closed")).await.unwrap();
    let worker = Running::start(db.worker(registry()).queue("mail", 3));
    until("a worker", async || operator.workers().await.unwrap().pop()).await;
    let client = Client::of(db.database());
    let page = client.page("/queues/one?name=mail").await;
    for text in ["Queue mail", "Attempts per minute", "Wait time", "(3 slots)"] {
        page.shows(text);
    }
    assert_eq!(page.texts("tbody", "th"), ["send_mail"]);
    assert_eq!(page.texts("form.row-actions small", "button"), ["Pause", "Drain", "Slots", "Purge"]);
    let page = client.page("/kinds/one?name=charge&range=24h").await;
    for text in ["Kind charge", "by eve: the bank is closed", "the bank refused order 7"] {
        page.shows(text);
    }
    page.hides("no figures of monday");
    assert!(page.texts("form.row-actions small", "button").contains(&"Resume".to_owned()));
    assert!(page.values("a", "href").any(|href| href == "/admin/jobs/queues/one?name=billing"));
    assert!(page.values("a", "href").any(|href| href == "/admin/jobs/kinds/one?name=charge&range=7d"));
    worker.stop().await;
    for (path, status) in [
        ("/queues/one", 400),
        ("/kinds/one?name=charge&range=2h", 400),
        ("/kinds/one?name=charge&colour=red", 400),
        ("/kinds/one?name=%00", 400),
    ] {
        assert_eq!(client.get(path).await.status.as_u16(), status, "{path}");
    }
    // Nobody knows them, and they have no jobs: the pages say so. Pages of old jobs lead here.
    for path in ["/kinds/one?name=%3Cb%3E", "/queues/one?name=%3Cb%3E"] {
        let page = client.page(path).await;
        page.shows("There was no job when all jobs were counted.");
        assert_eq!(page.texts("form.row-actions small", "button").len(), usize::from(path.starts_with("/kinds")));
    }
}

/// The next version of `charge`.
#[job(kind = "debit", queue = "billing", max_attempts = 1, aliases("charge"))]
async fn debit(order: i64, #[arg(secret)] card: String) -> Result<(), std::io::Error> {
    Err(std::io::Error::other(format!("the bank refused order {order} with card {card}")))
}

async fn a_renamed_kind_is_one_kind(db: Db) {
    let seeded = seed(&db).await;
    let renamed = db.enqueue(Debit::new(9, "4711".to_owned())).await;
    let client = || Client::on(dashboard(db.database().clone(), support::registry!(Debit)));
    let waiting = [renamed, seeded.available].map(|id| id.to_string());
    for kind in ["debit", "charge"] {
        for filter in [format!("kind={kind}"), format!("q=kind%3A{kind}")] {
            let page = client().page(&format!("/jobs?{filter}&state=available")).await;
            assert_eq!(page.texts("tbody", "th"), waiting, "{filter}");
            page.shows("available2");
        }
        let page = client().page(&format!("/kinds/one?name={kind}")).await;
        let rows = page.texts("tbody", "th");
        assert_eq!(rows.iter().filter(|name| *name == "billing").count(), 1, "{kind}: {rows:?}");
        page.shows("the bank refused order 7");
        page.shows(if kind == "debit" { "Other namescharge" } else { "Other namesdebit" });
        // What a page says of its jobs, its links find.
        let is_list = |address: &&String| address.contains("/jobs?") && address.contains("state=available");
        let link = page.all("a").find(|link| link.attributes.get("href").as_ref().is_some_and(is_list)).unwrap();
        assert_eq!(link.text, "2", "{kind}");
        let page = client().page(link.attributes["href"].trim_start_matches("/admin/jobs")).await;
        assert_eq!(page.texts("tbody", "th"), waiting, "{kind}");
    }
    // The same failure under both names is one group.
    let worker = Running::start(db.worker(support::registry!(Debit)).queue("billing", 1));
    for job in [renamed, seeded.available] {
        db.await_state(job, JobState::Discarded).await;
    }
    worker.stop().await;
    for path in ["/failures", "/kinds/one?name=debit"] {
        let groups = client().page(path).await.texts("tbody", "th");
        assert_eq!(groups.iter().filter(|group| group.contains("the bank refused")).count(), 1, "{path}: {groups:?}");
    }
    assert_eq!(client().page("/queues/one?name=billing").await.texts("tbody", "th"), ["debit"]);

    // A worker of the older program does not know the present name.
    db.enqueue(Debit::new(10, "4711".to_owned())).await;
    let operator = &db.database().operator;
    let old = Running::start(db.worker(registry()).queue("elsewhere", 1));
    until("a worker", async || operator.workers().await.unwrap().pop()).await;
    let names = client().page("/kinds").await.texts("tbody", "th");
    let row = names.iter().find(|name| name.starts_with("debit")).unwrap();
    assert!(
        row.contains("Unknown kind: 1 job waits") && !names.iter().any(|name| name.starts_with("charge")),
        "{names:?}"
    );
    old.stop().await;
    operator.pause_kind("charge", "eve", Some("the bank is closed")).await.unwrap();
    for path in ["/kinds", "/kinds/one?name=debit"] {
        client().page(path).await.shows("by eve: the bank is closed");
    }
    let page = client().page("/confirm?action=kind-resume&name=debit").await;
    page.shows("by eve: the bank is closed");
    assert_eq!(page.all("form").count(), 1, "it can be resumed: {}", page.text);
}

/// Jobs of dead workers end only if a live one frees them.
async fn a_drained_queue_says_that_no_worker_is_alive(db: Db) {
    let mut job = NewJob::raw("send_mail", "{}");
    job.queue = "mail".into();
    let id = db.enqueue(job).await;
    db.execute(if db.is_postgres() {
        "with moved as (delete from jobs.ready returning *)
         insert into jobs.running (id, run_at, enqueued_at, lease, priority, attempt, max_attempts, crashes, worker, kind, queue, args)
         select id, run_at, enqueued_at, 1, 0, 1, 3, 0, '00000000-0000-7000-8000-000000000001', kind, queue, args from moved"
    } else {
        "update jobs_job set state = 'running', worker = '00000000-0000-7000-8000-000000000001', claimed_at = 1, lease = 1"
    })
    .await;
    assert_eq!(db.record(id).await.state, JobState::Running);
    let client = Client::of(db.database());
    client.post("/confirm", "action=queue-drain&name=mail").await;
    let page = client.page("/queues/drain?queue=mail").await;
    page.shows("1 job still runs.");
    page.shows("No worker is alive, so these jobs end only after a worker has started: worker run.");
    page.shows("This worker is dead");
}

support::on_each_database! {
    a_queue_and_a_kind_have_pages_of_their_own,
    a_renamed_kind_is_one_kind,
    the_overview_names_paused_queues_and_those_without_a_worker,
    the_overview_says_why_jobs_wait_for_long,
    a_drained_queue_says_that_no_worker_is_alive,
}
