//! Runs the commands of "After a backlog" in `docs/guide/runbooks.md`, word for word, while a worker runs jobs.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::{Duration, Instant};

use diesel_jobs::worker::{Retention, WorkerId};
use diesel_jobs::{JobContext, JobState, State, job};
use diesel_jobs_core::storage::Chore;
use support::{Conn, Db, Running, registry, until};

use crate::table::{alone, print, row};

const BOOK: &str = include_str!("../../../docs/guide/runbooks.md");
/// The number of jobs. Every tenth has arguments that are stored in `jobs.payload`.
const BACKLOG: usize = 30_000;
/// The number of ids of 32 digits in large arguments. They do not compress.
const LARGE: usize = 100;
/// The maximum size of each table with its indexes afterwards, in bytes: a few pages, and the history that is added
/// meanwhile.
const SHRUNK: i64 = 512 * 1024;

#[derive(Clone, Default)]
struct Ran(Arc<AtomicI64>);

#[job]
async fn tiny(padding: String, ctx: &JobContext, State(ran): State<Ran>) {
    drop(padding);
    assert_eq!(ctx.attempt(), 1);
    ran.0.fetch_add(1, Ordering::Relaxed);
}

fn small() -> Tiny {
    Tiny { padding: String::new() }
}

/// Returns the commands of the section, in their order.
fn commands() -> Vec<String> {
    let (_, section) = BOOK.split_once("\n## After a backlog\n").expect("the section is there");
    let section = section.split("\n## ").next().unwrap_or(section);
    let blocks = section.split("```sql\n").skip(1).map(|block| block.split("```").next().unwrap_or_default());
    let commands: Vec<String> = blocks
        .flat_map(|block| block.split(';'))
        .map(str::trim)
        .filter(|one| !one.is_empty())
        .map(str::to_owned)
        .collect();
    assert!(commands.len() >= 16, "{commands:#?}");
    commands
}

async fn sizes(conn: &mut Conn) -> BTreeMap<&'static str, i64> {
    let mut sizes = BTreeMap::new();
    for table in ["ready", "running", "finished", "payload"] {
        let size = format!("select pg_total_relation_size('jobs.{table}') as number");
        sizes.insert(table, conn.number(&size).await);
    }
    sizes
}

async fn shrinks(db: Db) {
    let (ran, mut conn) = (Ran::default(), db.conn().await);
    // Autovacuum is switched off. Otherwise it could do the work of the commands.
    for table in ["ready", "running", "finished", "payload"] {
        conn.execute(&format!("alter table jobs.{table} set (autovacuum_enabled = off)")).await;
    }
    let mut pin = db.conn().await;
    pin.execute("begin isolation level repeatable read; select 1").await;
    let pinned = pin.number("select pg_backend_pid()::bigint as number").await;

    let retention = Retention { completed: Duration::from_secs(1), ..Retention::default() };
    let worker = Running::start(db.worker(registry![Tiny]).state(ran.clone()).retention(retention));
    for thousand in 0..BACKLOG / 1000 {
        let padding = |n: usize| {
            if n.is_multiple_of(10) {
                (0..LARGE).map(|_| WorkerId::generate().0.simple().to_string()).collect()
            } else {
                String::new()
            }
        };
        conn.enqueue_all((0..1000).map(|n| Tiny { padding: padding(n + thousand) })).await;
    }
    let backlog = i64::try_from(BACKLOG).unwrap();
    support::within(Duration::from_secs(90), "the backlog to be done", async {
        while ran.0.load(Ordering::Relaxed) < backlog {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    })
    .await;
    conn_number_is(&mut conn, 0, "select count(*) as number from jobs.running").await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    while db.storage().maintain(Chore::Prune, 10_000).await.unwrap().more {}

    // Enqueues continue all the time, one by one, as from a web application.
    let stop = Arc::new(AtomicBool::new(false));
    let trickle = tokio::spawn({
        let (stop, mut web) = (stop.clone(), db.conn().await);
        async move {
            let (mut sent, mut longest) = (0_i64, Duration::ZERO);
            while !stop.load(Ordering::Relaxed) {
                let begun = Instant::now();
                web.enqueue(small()).await;
                longest = longest.max(begun.elapsed());
                sent += 1;
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            (sent, longest)
        }
    });

    let commands = commands();
    // While the snapshot is open, the first query returns its session, and a vacuum frees nothing.
    let holders = format!("select count(*) as number from ({}) seen where pid = {pinned}", commands[0]);
    assert_eq!(conn.number(&holders).await, 1);
    let vacuum = commands.iter().find(|command| command.starts_with("vacuum jobs.ready")).expect("a plain vacuum");
    conn.execute(vacuum).await;
    let bloated = sizes(&mut conn).await;
    pin.execute("rollback").await;
    assert_eq!(conn.number(&holders).await, 0);

    let mut took = vec![row!["command", "ms"]];
    for command in &commands {
        let begun = Instant::now();
        conn.execute(command).await;
        let first: String = command.lines().next().unwrap_or_default().chars().take(70).collect();
        took.push(row![first, format!("{:.1}", begun.elapsed().as_secs_f64() * 1e3)]);
    }
    let shrunk = sizes(&mut conn).await;
    stop.store(true, Ordering::Relaxed);
    let (sent, longest) = trickle.await.unwrap();
    print(&format!("After a backlog of {BACKLOG} jobs: {sent} enqueues meanwhile, the longest {longest:.1?}"), &took);
    let mut table = vec![row!["table and indexes", "KiB before", "KiB after"]];
    table.extend(bloated.iter().map(|(name, before)| row![name, before / 1024, shrunk[name] / 1024]));
    print("What the commands gave back", &table);

    for (table, before) in &bloated {
        assert!(*before > 3 * SHRUNK, "jobs.{table} was not bloated: {bloated:?}");
        assert!(shrunk[table] < SHRUNK, "jobs.{table} is not shrunk: {shrunk:?}");
    }
    // Every job ran exactly once.
    until("all to run", async || (ran.0.load(Ordering::Relaxed) == backlog + sent).then_some(())).await;
    conn_number_is(
        &mut conn,
        0,
        "select (select count(*) from jobs.ready) + (select count(*) from jobs.running) as number",
    )
    .await;
    assert_eq!(ran.0.load(Ordering::Relaxed), backlog + sent);
    // The index for claims is valid, and is still the replica identity.
    let index = "select count(*) as number from pg_index where indexrelid = 'jobs.ready_claim'::regclass and indisreplident and indisvalid";
    assert_eq!(conn.number(index).await, 1);
    let invalid = "select count(*) as number from pg_index join pg_class c on c.oid = indrelid where c.relnamespace = 'jobs'::regnamespace and not indisvalid";
    assert_eq!(conn.number(invalid).await, 0);
    // Claims are quick, and no worker was declared dead.
    let mut waits = Vec::new();
    for _ in 0..50 {
        let id = conn.enqueue(small()).await;
        let job = db.await_state(id, JobState::Completed).await;
        waits.push(job.claimed_at.expect("it was claimed") - job.enqueued_at);
    }
    waits.sort();
    assert!(waits[25].num_milliseconds() < 50, "{waits:?}");
    assert_eq!(worker.stop().await.leases_lost, 0);
}

async fn conn_number_is(conn: &mut Conn, expected: i64, sql: &str) {
    support::within(support::LIMIT, sql, async {
        while conn.number(sql).await != expected {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
}

#[test]
fn the_documented_commands_shrink_what_a_backlog_left_while_workers_work() {
    let _alone = alone();
    support::run(Db::postgres(), shrinks);
}
