//! Claims as they are often written at first. Each is shown to misbehave on a real server, for comparison with ours.

use std::sync::Arc;
use std::time::{Duration, Instant};

use diesel_jobs::NewJob;
use diesel_jobs::worker::WorkerId;
use diesel_jobs_core::storage::{Claim, Wanted, WorkerInfo};
use support::{Conn, Db};
use tokio::sync::Barrier;

use crate::table::{alone, print, row};

const JOBS: i64 = 400;

/// Creates a queue as it is often written at first.
async fn naive(db: &Db) -> Conn {
    let mut conn = db.conn().await;
    conn.execute(&format!(
        "drop table if exists queue, take;
         create table queue (id bigint primary key, taken_by int);
         create table take (id bigint, claimer int);
         insert into queue select generate_series(1, {JOBS});
         analyze queue"
    ))
    .await;
    conn
}

/// Eight claimers run a statement that claims one job and records it, until no job is left.
async fn race(db: &Db, statement: &str) {
    let barrier = Arc::new(Barrier::new(8));
    let mut claimers = Vec::new();
    for claimer in 0..8 {
        let (mut conn, barrier) = (db.conn().await, barrier.clone());
        let statement = statement.replace("$me", &claimer.to_string());
        claimers.push(tokio::spawn(async move {
            barrier.wait().await;
            let left = "select count(*) as number from queue where taken_by is null";
            while conn.number(left).await > 0 {
                conn.execute(&statement).await;
            }
        }));
    }
    for claimer in claimers {
        claimer.await.unwrap();
    }
}

/// Two claimers read the same row before either writes. Both claim it. Returns how many jobs were claimed twice.
async fn without_a_lock(db: &Db) -> i64 {
    let mut conn = naive(db).await;
    race(
        db,
        "do $$ declare job bigint; begin
            select id into job from queue where taken_by is null order by id limit 1;
            if job is null then return; end if;
            update queue set taken_by = $me where id = job;
            insert into take values (job, $me);
         end $$",
    )
    .await;
    conn.number("select count(*) - count(distinct id) as number from take").await
}

/// With `for update` alone, every claimer waits for the one that has locked the first row. Returns how long a second
/// claim takes while another claimer holds its row for half a second, although 399 others are free.
async fn wait_beside_a_holder(db: &Db, lock: &str) -> Duration {
    let mut holder = naive(db).await;
    let claim = format!("select id as number from queue where taken_by is null order by id limit 1 {lock}");
    holder.execute("begin").await;
    let held = holder.number(&claim).await;
    let (mut second, claim) = (db.conn().await, claim.clone());
    let waiting = tokio::spawn(async move {
        let asked = Instant::now();
        let got = second.number(&claim).await;
        (asked.elapsed(), got)
    });
    tokio::time::sleep(Duration::from_millis(500)).await;
    holder.execute(&format!("update queue set taken_by = 1 where id = {held}; commit")).await;
    waiting.await.unwrap().0
}

/// Planner settings that force nested loops. With other tables and other statistics the planner may choose nested loops
/// without them.
const PLANNER: [&str; 6] =
    ["enable_hashjoin", "enable_mergejoin", "enable_hashagg", "enable_sort", "enable_material", "enable_memoize"];

/// In a nested-loop plan the subselect runs again for each row of the outer side, and each time skips the rows that are
/// already locked. So the limit has no effect. Returns how many rows a claim of ten took.
async fn rows_of_a_claim_of_ten(db: &Db, membership: &str) -> i64 {
    let mut conn = naive(db).await;
    conn.execute(&PLANNER.map(|setting| format!("set {setting} = off")).join(";")).await;
    conn.number(&format!(
        "with taken as (update queue set taken_by = 1 where id {membership} returning id) select count(*) as number from taken"
    ))
    .await
}

const TEN: &str = "select id from queue where taken_by is null order by id limit 10 for update skip locked";

/// Our claim: eight claimers at once until nothing is left, ten jobs per claim, with the same planner settings.
async fn ours(db: &Db) -> (i64, Duration, usize) {
    db.conn().await.enqueue_all((0..JOBS).map(|_| NewJob::raw("work", "{}"))).await;
    let barrier = Arc::new(Barrier::new(8));
    let mut claimers = Vec::new();
    for _ in 0..8 {
        let (database, barrier) = (db.again().await, barrier.clone());
        claimers.push(tokio::spawn(async move {
            let id = register(&database).await;
            barrier.wait().await;
            let (mut taken, mut slowest, mut most) = (Vec::new(), Duration::ZERO, 0);
            loop {
                let asked = Instant::now();
                let wanted = vec![Wanted::new("default", 10)];
                let claim = Claim::new(id, wanted, ["work".to_owned()]);
                let jobs = database.storage.claim(&claim).await.unwrap();
                slowest = slowest.max(asked.elapsed());
                most = most.max(jobs.len());
                if jobs.is_empty() {
                    break (taken, slowest, most);
                }
                taken.extend(jobs.into_iter().map(|job| job.lease.job));
            }
        }));
    }
    let (mut taken, mut slowest, mut most) = (Vec::new(), Duration::ZERO, 0);
    for claimer in claimers {
        let (ids, took, rows) = claimer.await.unwrap();
        taken.extend(ids);
        slowest = slowest.max(took);
        most = most.max(rows);
    }
    let all = taken.len();
    taken.sort_unstable();
    taken.dedup();
    assert_eq!(i64::try_from(taken.len()).unwrap(), JOBS, "each job was claimed");
    (i64::try_from(all - taken.len()).unwrap(), slowest, most)
}

async fn register(database: &diesel_jobs::Database) -> WorkerId {
    let id = WorkerId::generate();
    let lease = Duration::from_secs(60);
    let info = WorkerInfo { queues: vec!["default".to_owned()], ..WorkerInfo::new(id, lease) };
    database.storage.register(&info).await.unwrap();
    id
}

#[test]
fn the_classic_wrong_claims_misbehave_and_ours_does_not() {
    let _alone = alone();
    support::run(Db::postgres(), async |db| {
        let twice = without_a_lock(&db).await;
        let waits = wait_beside_a_holder(&db, "for update").await;
        let skips = wait_beside_a_holder(&db, "for update skip locked").await;
        let flood = rows_of_a_claim_of_ten(&db, &format!("in ({TEN})")).await;
        let ten = rows_of_a_claim_of_ten(&db, &format!("= any(array({TEN}))")).await;
        // The settings apply to our claim, too: new connections use them.
        db.execute(&format!(
            "do $$ begin {} end $$",
            PLANNER
                .map(|setting| {
                    format!("execute format('alter database %I set {setting} = off', current_database());")
                })
                .join(" ")
        ))
        .await;
        let (conflicts, slowest, most) = ours(&db).await;

        let ms = |time: Duration| format!("{:.0} ms", time.as_secs_f64() * 1e3);
        print(
            "classic wrong claims, and ours",
            &[
                row!["claim", "what is counted", "found", "should be"],
                row!["select .. limit 1, then update", "jobs taken twice, of 400", twice, 0],
                row!["select .. for update", "wait beside a busy claimer", ms(waits), "0 ms"],
                row!["select .. for update skip locked", "the same", ms(skips), "0 ms"],
                row!["id in (select .. limit 10 ..), nested loop", "rows taken by a claim of 10", flood, 10],
                row!["id = any(array(select .. limit 10 ..))", "the same", ten, 10],
                row!["ours, 8 at once", "jobs taken twice, of 400", conflicts, 0],
                row!["ours, 8 at once", "rows taken by a claim of 10, at most", most, 10],
                row!["ours, 8 at once", "slowest claim", ms(slowest), "-"],
            ],
        );
        assert!(twice > 0, "the claim without a lock did not misbehave");
        assert!(waits >= Duration::from_millis(400), "the claim without skip locked did not wait");
        assert!(skips < Duration::from_millis(400));
        assert!(flood > 10, "the claim by `in` kept its limit");
        assert_eq!((ten, conflicts, most), (10, 0, 10));
    });
}
