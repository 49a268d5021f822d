//! Filters, pages and counts.

use std::time::Duration;

use diesel_jobs_core::storage::{Count, EXAMINED_AT_COST, JobFilter, Paging, search};
use diesel_jobs_core::{Failure, FailureKind, JobId, JobState, Keep, StorageError, Transition};

use crate::bench::*;
use crate::fixture::Fixture;

async fn found<F: Fixture>(f: &F, filter: &str) -> Vec<JobId> {
    let filter: JobFilter = filter.parse().unwrap_or_else(|problem| panic!("{filter}: {problem}"));
    let operator = &f.database().operator;
    let page =
        operator.list(&filter, Paging::newest(100)).await.unwrap_or_else(|problem| panic!("{filter}: {problem}"));
    let ids: Vec<JobId> = page.jobs.iter().map(|job| job.id).collect();
    let count = operator.count(&filter).await.unwrap();
    assert_eq!(count, Count { jobs: ids.len() as u64, is_exact: true }, "{filter}");
    assert_eq!(page.searched_to, None, "{filter}");
    for (state, count) in operator.count_by_state(&filter).await.unwrap() {
        let jobs = page.jobs.iter().filter(|job| job.state == state).count() as u64;
        assert_eq!(count, Count { jobs, is_exact: true }, "{filter} {state}");
    }
    let states = operator.count_by_state(&filter).await.unwrap().into_iter().map(|(state, _)| state);
    let states: Vec<JobState> = states.collect();
    assert!(page.jobs.iter().all(|job| states.contains(&job.state)), "{filter}: {states:?}");
    ids
}

pub(crate) async fn a_filter_finds_the_jobs_that_meet_all_its_conditions<F: Fixture>(f: F) {
    let db = f.database();
    let plain = enqueue(&f, job()).await;
    let mail = enqueue(
        &f,
        with(|job| {
            (job.kind, job.queue, job.priority) = ("b".into(), "mail, \"urgent\"".into(), -3);
            job.tags = vec!["x".to_owned(), "a b".to_owned()];
            job.args =
                r#"{"user":{"id":7,"name":"Ann"},"items":[{"sku":"A1"},{"sku":2}],"ok":true,"none":null,"0":"zero"}"#
                    .into();
        }),
    )
    .await;
    let later = enqueue(&f, later(HOUR)).await;
    let worker = worker(db).await;
    let failing = claimed(&f, worker, with(|job| job.priority = 9)).await;
    assert!(finish(db, &failing, retry_in(HOUR)).await);
    let failed = failing.lease.job;
    for (filter, expected) in [
        ("", vec![failed, later, mail, plain]),
        ("state:available", vec![mail, plain]),
        ("state:scheduled", vec![later]),
        ("state:retrying", vec![failed]),
        ("state:retrying,available", vec![failed, mail, plain]),
        ("state:running,completed,cancelled,discarded", vec![]),
        ("kind:b", vec![mail]),
        ("kind:a,b state:available", vec![mail, plain]),
        ("queue:\"mail, \\\"urgent\\\"\"", vec![mail]),
        ("queue:mail", vec![]),
        ("tag:x", vec![mail]),
        ("tag:x,\"a b\"", vec![mail]),
        ("tag:x,y", vec![]),
        ("priority:-3", vec![mail]),
        ("enqueued_after:1h", vec![failed, later, mail, plain]),
        ("enqueued_before:1h", vec![]),
        ("run_at_after:2000-01-01T00:00:00Z run_at_before:1ms", vec![mail, plain]),
        ("finished_after:1h", vec![]),
        ("error:\"DID not\"", vec![failed]),
        ("error:\"did_not\"", vec![]),
        ("error:100%", vec![]),
        ("args.user.id:7", vec![mail]),
        ("args.user.name:Ann", vec![mail]),
        ("args.user.name:ann", vec![]),
        ("args.ok:true", vec![mail]),
        ("args.ok:1", vec![]),
        ("args.none:null", vec![]),
        ("args.user:7", vec![]),
        ("args.items.0.sku:A1", vec![mail]),
        ("args.items.1.sku:2", vec![mail]),
        ("args.0:zero", vec![mail]),
        ("args.\"it's\":7", vec![]),
        ("args.\"$.user\":7 kind:b", vec![]),
        ("worker:018f4c1e-0000-7000-8000-000000000001", vec![]),
        ("fingerprint:12345", vec![]),
    ] {
        assert_eq!(found(&f, filter).await, expected, "{filter}");
    }
    assert_eq!(found(&f, &format!("id:{plain},{failed},{plain},999999")).await, [failed, plain]);
    assert_eq!(found(&f, &format!("id:{plain} kind:b")).await, []);
    let running = claimed(&f, worker, with(|job| job.priority = 9)).await.lease.job;
    assert_eq!(found(&f, &format!("worker:{worker}")).await, [running]);
    assert_eq!(found(&f, "state:running").await, [running]);
}

pub(crate) async fn arguments_of_any_size_and_content_are_searched<F: Fixture>(f: F) {
    let large = enqueue(&f, with(|job| job.args = format!("{{\"a\":\"{}\",\"user\":7}}", "x".repeat(100_000)))).await;
    for hostile in [r#"{"a":"\u0000","user":8}"#, r#"{"a":"\ud83d\ude00","user":8}"#, "[7]", "7", "null", "\"7\""] {
        enqueue(&f, with(|job| job.args = hostile.to_owned())).await;
    }
    assert_eq!(found(&f, "args.user:7").await, [large]);
    assert_eq!(found(&f, "args.0:7").await.len(), 1);
}

pub(crate) async fn pages_follow_each_other<F: Fixture>(f: F) {
    let operator = &f.database().operator;
    let mut ids = Vec::new();
    for number in 0..25 {
        let kind = if number % 5 == 0 { "b" } else { "a" };
        ids.push(enqueue(&f, with(|job| job.kind = kind.into())).await);
    }
    // Jobs in several tables, whose ids are mixed.
    operator.cancel_many(&ids[3..9]).await.unwrap();
    ids.reverse();
    let mut seen = Vec::new();
    let mut paging = Paging::newest(7);
    loop {
        let page = operator.list(&JobFilter::default(), paging).await.unwrap();
        assert!(page.jobs.len() <= 7);
        seen.extend(page.jobs.iter().map(|job| job.id));
        let Some(to) = page.searched_to else { break };
        paging = Paging::before(to, 7);
    }
    assert_eq!(seen, ids);
    let back = operator.list(&JobFilter::default(), Paging::after(ids[10], 4)).await.unwrap();
    assert_eq!(back.jobs.iter().map(|job| job.id).collect::<Vec<_>>(), ids[6..10]);
    assert_eq!(back.searched_to, Some(ids[6]));
    let last = operator.list(&JobFilter::default(), Paging::after(ids[2], 9)).await.unwrap();
    assert_eq!((last.jobs.len(), last.searched_to), (2, None));
    let between = Paging { before: Some(ids[4]), after: Some(ids[8]), limit: 9 };
    let between = operator.list(&JobFilter::default(), between).await.unwrap();
    assert_eq!(between.jobs.iter().map(|job| job.id).collect::<Vec<_>>(), ids[5..8]);
    assert_eq!(operator.list_all(&JobFilter::of_kind("b"), 3).await.unwrap().len(), 3);
}

pub(crate) async fn a_search_ends_after_a_bounded_number_of_rows<F: Fixture>(f: F) {
    let operator = &f.database().operator;
    let oldest = enqueue(&f, with(|job| job.kind = "b".into())).await;
    enqueue_all(&f, (0..20_050).map(|_| job()).collect()).await;
    let filter = JobFilter::of_kind("b");
    let page = operator.list(&filter, Paging::newest(10)).await.unwrap();
    assert!(page.jobs.is_empty());
    let to = page.searched_to.unwrap();
    assert_eq!(operator.count(&filter).await.unwrap(), Count { jobs: 0, is_exact: false });
    let next = operator.list(&filter, Paging::before(to, 10)).await.unwrap();
    assert_eq!((next.jobs.len(), next.jobs[0].id, next.searched_to), (1, oldest, None));
    assert_eq!(operator.list_all(&filter, 10).await.unwrap().len(), 1);
    let all = operator.count(&JobFilter::of_state(JobState::Available)).await.unwrap();
    assert_eq!(all, Count { jobs: 10_000, is_exact: false });
    assert_eq!(all.to_string(), "10,000+");
    let of_states = operator.count_by_state(&JobFilter::default()).await.unwrap();
    let count = |state| of_states.iter().find(|(of, _)| *of == state).map(|(_, count)| *count);
    assert_eq!(count(JobState::Available), Some(Count { jobs: 10_000, is_exact: false }));
    assert_eq!(count(JobState::Discarded), Some(Count { jobs: 0, is_exact: true }));
    let of_states = operator.count_by_state(&filter).await.unwrap();
    assert_eq!(of_states[0], (JobState::Available, Count { jobs: 0, is_exact: false }));
}

pub(crate) async fn a_filter_that_no_database_can_look_for_is_refused<F: Fixture>(f: F) {
    let operator = &f.database().operator;
    for filter in [
        JobFilter::of_kind("a\0"),
        JobFilter { error: Some("\0".into()), ..JobFilter::default() },
        JobFilter::of_ids((0..2000).map(JobId)),
    ] {
        for refused in [
            operator.list(&filter, Paging::newest(1)).await.err(),
            operator.count(&filter).await.err(),
            operator.start_operation(&diesel_jobs_core::storage::Action::Cancel, &filter, "ann").await.err(),
        ] {
            assert!(matches!(refused, Some(StorageError::Config(_))), "{filter:?}");
        }
    }
    assert_eq!(operator.operations(None, 9).await.unwrap(), []);
}

pub(crate) async fn a_kind_that_was_not_counted_is_searched_among_newer_jobs_only<F: Fixture>(f: F) {
    let db = f.database();
    let insert = |jobs: u32, age: u32| match F::TABLES.contains(&"ready") {
        true => format!(
            "insert into jobs.ready (kind, args, enqueued_at) select 'a', '{{}}', now() - interval '{age} s'
             from generate_series(1, {jobs})"
        ),
        false => format!(
            "with recursive n(i) as (select 1 union all select i + 1 from n where i < {jobs})
             insert into jobs_job (kind, args, enqueued_at) select 'a', '{{}}',
                 (cast(round(unixepoch('subsec') * 1000) as integer) - {age} * 1000) * 1000 from n"
        ),
    };
    let mut client = f.client().await;
    let searched = async |kind: &str, start: Paging| {
        let filter = format!("kind:{kind}").parse::<JobFilter>().unwrap();
        let found = search(&*db.operator, &filter, start, Duration::MAX).await.unwrap();
        (found.jobs.len(), found.searched_to.is_some(), found.not_counted.map(|count| count.searched_to))
    };
    client.execute(&insert(45_000, 600)).await.unwrap();
    assert_eq!(
        searched("nothing", Paging::newest(10)).await,
        (0, false, None),
        "nobody has counted, so all is searched"
    );
    assert_eq!(db.storage.count_jobs().await.unwrap().rows, 1);
    let (jobs, has_more, searched_to) = searched("nothing", Paging::newest(10)).await;
    assert!((jobs, has_more) == (0, true) && searched_to.is_some_and(|id| id.0 > 20_000), "{searched_to:?}");
    let before = Paging::before(searched_to.unwrap(), 10);
    assert_eq!(
        searched("nothing", before).await,
        (0, false, None),
        "whoever asks for older jobs gets an answer about all"
    );
    assert_eq!(searched("a", Paging::newest(10)).await, (10, true, None));
    // A search that has no more time says how far it has come, and goes on from there.
    let nothing: JobFilter = "tag:nothing".parse().unwrap();
    let part = search(&*db.operator, &nothing, Paging::newest(10), Duration::ZERO).await.unwrap();
    let to = part.searched_to.unwrap();
    assert!(part.jobs.is_empty() && to.0 > 20_000, "{to}");
    let mut rest = Paging::before(to, 10);
    while let Some(to) = search(&*db.operator, &nothing, rest, Duration::ZERO).await.unwrap().searched_to {
        assert!(to < rest.before.unwrap());
        rest.before = Some(to);
    }

    // A job of a new kind is found also behind many jobs that are newer than the count.
    enqueue(&f, with(|job| job.kind = "b".into())).await;
    client.execute(&insert(45_000, 0)).await.unwrap();
    assert_eq!(searched("b", Paging::newest(1)).await, (1, true, None));
}

/// However many jobs came later: only jobs that have failed with the fingerprint are examined.
pub(crate) async fn a_fingerprint_finds_old_jobs_behind_many_others<F: Fixture>(f: F) {
    let db = f.database();
    let worker = worker(db).await;
    let failure = |number: i32| Failure::new(FailureKind::Error, &format!("there is no account {number}"));
    let retry = |number| Transition::Retry { delay: HOUR, failure: failure(number) };
    let mut ids = Vec::new();
    for transition in [retry(1), Transition::Discard { failure: failure(2), keep: Keep::For(HOUR) }, retry_in(HOUR)] {
        let failed = claimed(&f, worker, job()).await;
        assert!(finish(db, &failed, transition).await);
        ids.push(failed.lease.job);
    }
    let many = i64::try_from(EXAMINED_AT_COST).unwrap() + 1;
    for _ in 0..=EXAMINED_AT_COST / 1000 {
        enqueue_all(&f, vec![later(HOUR); 1000]).await;
    }
    let by_fingerprint = format!("fingerprint:{}", failure(3).fingerprint);
    assert_eq!(found(&f, &by_fingerprint).await, [ids[1], ids[0]]);
    assert_eq!(found(&f, &format!("{by_fingerprint} state:discarded")).await, ids[1..2]);
    assert_eq!(found(&f, &format!("{by_fingerprint} state:retrying id:{},{}", ids[0], ids[2])).await, ids[..1]);

    // These jobs have been deleted, and their failures not yet.
    let errors = F::table("job_error");
    let deleted = format!(
        "with recursive n (i) as (select 1 union all select i + 1 from n where i < {many})
         insert into {errors} (job_id, attempt, kind, message, fingerprint) select 1000000 + i, 1, 'error', '', {} from n",
        failure(3).fingerprint
    );
    f.client().await.execute(&deleted).await.unwrap();
    let filter: JobFilter = by_fingerprint.parse().unwrap();
    let page = db.operator.list(&filter, Paging::newest(10)).await.unwrap();
    assert_eq!((page.jobs.len(), page.searched_to), (0, Some(JobId(1_000_002))), "so far the page is empty");
    let counts = db.operator.count_by_state(&filter).await.unwrap();
    assert!(counts.iter().all(|(_, count)| *count == Count { jobs: 0, is_exact: false }), "{counts:?}");
    let all = search(&*db.operator, &filter, Paging::newest(10), HOUR).await.unwrap();
    assert_eq!(all.jobs.iter().map(|job| job.id).collect::<Vec<_>>(), [ids[1], ids[0]]);
    let oldest = db.operator.list(&filter, Paging::after(JobId(0), 1)).await.unwrap();
    assert_eq!((oldest.jobs[0].id, oldest.searched_to), (ids[0], Some(ids[0])));
}
