//! Compares the native statements with their reviewed texts, and tests that each is prepared only once.

use std::time::Duration;

use chrono::DateTime;
use diesel::QueryableByName;
use diesel::pg::Pg;
use diesel::query_builder::QueryFragment;
use diesel::sql_types::{BigInt, Text};
use diesel_async::{AsyncConnection as _, AsyncPgConnection, RunQueryDsl as _};
use diesel_jobs_core::flags::JobFlags;
use diesel_jobs_core::storage::{Claim, Wanted};
use diesel_jobs_core::{Failure, FailureKind, Finish, JobId, Keep, Lease, NewJob, Transition, WorkerId};

use super::audited::Actor;
use super::cancel_many::CancelManyQuery;
use super::cancelled::CancelledQuery;
use super::claim::{ClaimInTurnsQuery, ClaimQuery, ClaimedRow};
use super::claim_few::ClaimFewQuery;
use super::claim_quarantined::ClaimQuarantinedQuery;
use super::complete::{CompleteQuery, CompletedQuery};
use super::complete_in::prepare;
use super::delete::DeleteQuery;
use super::discover::DiscoverQuery;
use super::enqueue::EnqueueQuery;
use super::enqueue_alike::EnqueueAlikeQuery;
use super::enqueue_many::EnqueueManyQuery;
use super::expire::ExpireQuery;
use super::finish::FinishQuery;
use super::finish_variants::{DiscardUnlockedQuery, FinishUnlockedQuery, RecordUnlockedQuery};
use super::next_due::{NextDueQuery, NextDueRow};
use super::operate::{CancelQuery, RescheduleQuery, RetryQuery};
use super::poll::PollQuery;
use super::prune::PruneQuery;
use super::rescan::RescanQuery;
use super::rescue::RescueQuery;
use super::set_apart::{SetFinishedApart, SetHistoryApart, SetQuarantinedApart, SetRunningApart, SetWaitingApart};
use super::store_outputs::StoreOutputsQuery;
use super::thaw::ThawQuery;
use super::waiting_queues::WaitingQueuesQuery;
use crate::pg::levels::{Plan, Scan};

const ACTOR: Actor<'static> = Actor { name: "ann", is_audited: true };

fn claim() -> Claim {
    Claim::new(WorkerId::generate(), vec![Wanted::new("q", 3)], ["k".to_owned()])
}

fn plan() -> Plan {
    let scan = Scan { queue: 0, hi: 40_000, lo: -40_000, floor: None, resume_at: None, try_all_rows: false };
    Plan { scans: vec![scan], of_queue: vec![0..1, 0..1], lag: Duration::from_secs(1) }
}

/// A plan of one level and the gap above it.
fn plan_for_few() -> Plan {
    let scan = |hi, floor| Scan { queue: 0, hi, lo: 0, floor, resume_at: None, try_all_rows: false };
    let scans = vec![scan(40_000, None), scan(0, Some(DateTime::UNIX_EPOCH))];
    Plan { scans, of_queue: std::iter::once(0..2).collect(), lag: Duration::from_secs(1) }
}

fn finish(number: i32) -> [Finish; 1] {
    let failure = Failure::new(FailureKind::Error, "no");
    let lease = Lease { job: JobId(1), number, worker: WorkerId::generate() };
    let transition = Transition::Retry { delay: Duration::ZERO, failure };
    [Finish { lease, flags: JobFlags::default(), transition }]
}

fn completion(number: i32, keep: Keep) -> [Finish; 1] {
    finish(number).map(|finish| Finish { transition: Transition::Complete(keep), ..finish })
}

fn text(query: &impl QueryFragment<Pg>) -> String {
    let debug = diesel::debug_query::<Pg, _>(query).to_string();
    debug.split(" -- binds").next().unwrap_or_default().to_owned()
}

#[test]
fn the_native_statements_are_the_reviewed_ones() {
    let (claim, plan, finish, job) = (claim(), plan(), finish(1), NewJob::raw("k", "{}"));
    insta::assert_snapshot!("claim", text(&ClaimQuery::new(&claim, &plan)));
    let in_turns = Claim { most: Some(2), ..claim.clone() };
    insta::assert_snapshot!("claim_in_turns", text(&ClaimInTurnsQuery::new(&in_turns, &plan).unwrap()));
    insta::assert_snapshot!("claim_few", text(&ClaimFewQuery::new(&claim, &plan_for_few()).unwrap()));
    insta::assert_snapshot!("claim_quarantined", text(&ClaimQuarantinedQuery::new(&claim)));
    insta::assert_snapshot!("next_due", text(&NextDueQuery::new(&claim, &plan, Duration::from_secs(3))));
    insta::assert_snapshot!("poll", text(&PollQuery::new(&claim, &plan, Duration::from_secs(3))));
    insta::assert_snapshot!("discover", text(&DiscoverQuery::new(&claim, &plan)));
    insta::assert_snapshot!("waiting_queues", text(&WaitingQueuesQuery));
    insta::assert_snapshot!("rescan", text(&RescanQuery::new(&claim, &plan)));
    insta::assert_snapshot!("finish", text(&FinishQuery::new(&finish)));
    insta::assert_snapshot!("finish_unlocked", text(&FinishUnlockedQuery(FinishQuery::new(&finish))));
    insta::assert_snapshot!("record_unlocked", text(&RecordUnlockedQuery(FinishQuery::new(&finish))));
    insta::assert_snapshot!("cancelled", text(&CancelledQuery { ids: vec![1] }));
    insta::assert_snapshot!("discard_unlocked", text(&DiscardUnlockedQuery(FinishQuery::new(&finish))));
    let complete = CompleteQuery::new(&completion(1, Keep::Forever)).unwrap();
    insta::assert_snapshot!("complete", text(&complete));
    insta::assert_snapshot!("completed", text(&CompletedQuery(&complete, 1)));
    insta::assert_snapshot!("delete", text(&DeleteQuery::new(&completion(1, Keep::Nothing)).unwrap()));
    // The names of the prepared statements contain hashes of the texts. They are left out.
    let names_cut = |line: &str| line.split_once(" (bigint").map_or(line, |(_, rest)| rest).to_owned() + "\n";
    insta::assert_snapshot!("complete_in", prepare().lines().map(names_cut).collect::<String>());
    insta::assert_snapshot!("enqueue", text(&EnqueueQuery::new(&job)));
    insta::assert_snapshot!("enqueue_many", text(&EnqueueManyQuery::new(std::slice::from_ref(&job))));
    insta::assert_snapshot!("enqueue_alike", text(&EnqueueAlikeQuery::new(std::slice::from_ref(&job)).unwrap()));
    insta::assert_snapshot!(
        "rescue",
        text(&RescueQuery {
            max_crashes: 3,
            quarantined_at: 2,
            keep_seconds: 1.0,
            orphans: true,
            worker: None,
            beat: None,
            age: 0.0,
            only: None
        })
    );
    insta::assert_snapshot!("store_outputs", text(&StoreOutputsQuery::default()));
    insta::assert_snapshot!("prune", text(&PruneQuery { limit: 1, after: 1 }));
    insta::assert_snapshot!("retry", text(&RetryQuery::new(vec![1], ACTOR)));
    insta::assert_snapshot!("reschedule", text(&RescheduleQuery::new(vec![1], DateTime::UNIX_EPOCH, ACTOR)));
    insta::assert_snapshot!("cancel", text(&CancelQuery::new(vec![1], ACTOR)));
    insta::assert_snapshot!("set_waiting_apart", text(&SetWaitingApart::new(&claim, &plan)));
    insta::assert_snapshot!("set_quarantined_apart", text(&SetQuarantinedApart::new(&claim)));
    insta::assert_snapshot!("set_running_apart", text(&SetRunningApart));
    insta::assert_snapshot!("set_finished_apart", text(&SetFinishedApart));
    insta::assert_snapshot!("set_history_apart", text(&SetHistoryApart { ids: &[1] }));
    insta::assert_snapshot!("expire", text(&ExpireQuery::new(1.0)));
    let cancel_many = CancelManyQuery::new(DateTime::UNIX_EPOCH, 1, ACTOR);
    insta::assert_snapshot!("cancel_many", text(&cancel_many));
    insta::assert_snapshot!("thaw", text(&ThawQuery { actor: ACTOR.name.to_owned() }));
}

#[tokio::test]
async fn every_hot_statement_is_prepared_once_whatever_its_values() {
    let url = std::env::var("JOBS_TEST_DATABASE_URL").expect("JOBS_TEST_DATABASE_URL: run `cargo xtask test`");
    let mut conn = AsyncPgConnection::establish(&url).await.unwrap();
    conn.begin_test_transaction().await.unwrap();
    crate::migrate(&mut conn).await.unwrap();
    for round in 1..=7 {
        let claim = Claim { wanted: vec![Wanted::new("q", round), Wanted::new(format!("q{round}"), 1)], ..claim() };
        let jobs = vec![NewJob::raw("k", format!("{{\"n\": {round}}}")); round];
        let _: (i64, Option<bool>) = EnqueueQuery::new(&jobs[0]).get_result(&mut conn).await.unwrap();
        let _: Vec<i64> = EnqueueManyQuery::new(&jobs).load(&mut conn).await.unwrap();
        let _: Vec<i64> = EnqueueAlikeQuery::new(&jobs).unwrap().load(&mut conn).await.unwrap();
        let _: Vec<ClaimedRow> = ClaimQuery::new(&claim, &plan()).load(&mut conn).await.unwrap();
        let few = Claim { wanted: vec![Wanted::new(format!("q{round}"), round)], ..claim };
        let _: Vec<ClaimedRow> = ClaimFewQuery::new(&few, &plan_for_few()).unwrap().load(&mut conn).await.unwrap();
        let _: NextDueRow =
            NextDueQuery::new(&few, &plan(), Duration::from_secs(3)).get_result(&mut conn).await.unwrap();
        let _: Vec<i64> = FinishQuery::new(&finish(i32::try_from(round).unwrap())).get_result(&mut conn).await.unwrap();
        let number = i32::try_from(round).unwrap();
        let kept = CompleteQuery::new(&completion(number, Keep::Forever)).unwrap();
        kept.complete(&mut conn).await.unwrap();
        let deleted = DeleteQuery::new(&completion(number, Keep::Nothing)).unwrap();
        let _: Vec<i64> = deleted.get_result(&mut conn).await.unwrap();
    }
    #[derive(Debug, PartialEq, QueryableByName)]
    struct Prepared {
        #[diesel(sql_type = Text)]
        what: String,
        #[diesel(sql_type = BigInt)]
        times: i64,
    }
    let prepared: Vec<Prepared> = diesel::sql_query(
        "select left(statement, 28) as what, count(*) as times from pg_prepared_statements
         where statement ~ 'jobs[.](ready|running)' and statement !~ 'pg_prepared' group by 1 order by 1",
    )
    .load(&mut conn)
    .await
    .unwrap();
    assert_eq!(prepared.iter().map(|one| one.times).sum::<i64>(), 9, "{prepared:?}");
}
