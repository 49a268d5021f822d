//! Enqueueing, on every type of connection that an application may use.

use chrono::{TimeDelta, Utc};
use diesel_jobs_core::storage::JobFilter;
use diesel_jobs_core::{InvalidJob, JobState, MAX_ARGS_BYTES, NewJob, RunAt, Unique};
use diesel_jobs_storage::EnqueueError;

use crate::bench::*;
use crate::fixture::Fixture;

async fn count<F: Fixture>(f: &F) -> usize {
    f.database().operator.list_all(&JobFilter::default(), 1_000_000).await.unwrap().len()
}

/// A job alone, jobs that differ only in their arguments, and jobs that differ otherwise are enqueued by three
/// different statements.
pub(crate) async fn a_job_comes_out_as_it_went_in<F: Fixture>(f: F) {
    let given = with(|job| {
        job.queue = "mail".into();
        job.priority = -7;
        job.run_at = RunAt::After(HOUR);
        job.max_attempts = 3;
        job.args = r#"{"to":"Ada"}"#.to_owned();
        job.tags = vec!["one".to_owned(), "two".to_owned()];
    });
    let mut alike = given.clone();
    alike.args = "1".to_owned();
    for (name, mut client) in f.clients().await {
        let alone = client.enqueue(given.clone()).await.unwrap();
        let among_alike = client.enqueue_all(vec![given.clone(), alike.clone()]).await.unwrap();
        let among_others = client.enqueue_all(vec![given.clone(), job()]).await.unwrap();
        for id in [alone, among_alike[0], among_others[0]] {
            let job = record(f.database(), id).await;
            assert_eq!(
                (&*job.kind, &*job.queue, job.state, job.priority),
                ("a", "mail", JobState::Scheduled, -7),
                "{name}"
            );
            assert_eq!((job.attempt, job.max_attempts, job.crashes), (0, 3, 0), "{name}");
            assert_eq!((&*job.args, &*job.tags), (&*given.args, &*given.tags), "{name}");
            assert!(close(job.enqueued_at, now(f.database()).await), "{name}: {}", job.enqueued_at);
            assert!(close(job.run_at, job.enqueued_at + HOUR), "{name}: {}", job.run_at);
            assert_eq!((job.claimed_at, job.finished_at, job.worker), (None, None, None), "{name}");
        }
        assert_eq!(record(f.database(), among_alike[1]).await.args, "1", "{name}");
    }
}

pub(crate) async fn bulk_insert_keeps_run_at<F: Fixture>(f: F) {
    let tomorrow = Utc::now() + TimeDelta::days(1);
    let (at, past) = (RunAt::At(tomorrow), RunAt::At(tomorrow - TimeDelta::days(2)));
    for (name, mut client) in f.clients().await {
        let due = |run_at| with(|job| job.run_at = run_at);
        let mut ids = client.enqueue_all(vec![due(at); 2]).await.unwrap();
        ids.extend(client.enqueue_all(vec![due(past); 2]).await.unwrap());
        ids.extend(client.enqueue_all(vec![due(at), due(past), due(RunAt::Now)]).await.unwrap());
        let mut states = Vec::new();
        for id in &ids {
            let job = record(f.database(), *id).await;
            let due = if job.state == JobState::Scheduled { tomorrow } else { job.enqueued_at };
            assert!(close(job.run_at, due), "{name}: {} and not {due}", job.run_at);
            states.push(job.state == JobState::Scheduled);
        }
        assert_eq!(states, [true, true, false, false, true, false, false], "{name}");
    }
}

pub(crate) async fn a_rollback_leaves_nothing<F: Fixture>(f: F) {
    for (name, mut client) in f.clients().await {
        client.begin().await;
        client.enqueue(job()).await.unwrap();
        client.enqueue_all(vec![job(); 1500]).await.unwrap();
        client.rollback().await;
        assert_eq!(count(&f).await, 0, "{name}");
    }
}

pub(crate) async fn a_commit_brings_all<F: Fixture>(f: F) {
    let mut expected = 0;
    for (name, mut client) in f.clients().await {
        client.begin().await;
        client.enqueue(job()).await.unwrap();
        client.enqueue_all(vec![job(); 1500]).await.unwrap();
        assert_eq!(count(&f).await, expected, "{name}: nothing is seen before the commit");
        client.commit().await;
        expected += 1501;
        assert_eq!(count(&f).await, expected, "{name}");
    }
}

pub(crate) async fn ids_come_in_the_order_of_the_jobs<F: Fixture>(f: F) {
    for (name, mut client) in f.clients().await {
        for many in [1, 2, 3, 999, 1000, 1001, 2500] {
            let jobs = (0..many).map(|index| NewJob::raw("a", index.to_string())).collect();
            let ids = client.enqueue_all(jobs).await.unwrap();
            assert_eq!(ids.len(), many, "{name}");
            assert!(ids.is_sorted(), "{name}: {many}");
            for index in [0, many / 2, many - 1] {
                assert_eq!(record(f.database(), ids[index]).await.args, index.to_string(), "{name}: {many}");
            }
        }
    }
}

pub(crate) async fn ten_thousand_jobs_of_mixed_kinds_go_in_together<F: Fixture>(f: F) {
    let kind = |index: usize| ["a", "b", "c"][index % 3];
    let jobs = (0..10_000)
        .map(|index| {
            let mut job = NewJob::raw(kind(index), index.to_string());
            job.priority = i16::try_from(index % 5).unwrap();
            job
        })
        .collect();
    let ids = enqueue_all(&f, jobs).await;
    for (index, id) in ids.iter().enumerate().step_by(997) {
        let job = record(f.database(), *id).await;
        assert_eq!(
            (&*job.kind, job.args, usize::from(job.priority.unsigned_abs())),
            (kind(index), index.to_string(), index % 5)
        );
    }
    assert_eq!(count(&f).await, 10_000);
}

pub(crate) async fn nothing_is_enqueued_by_an_empty_list<F: Fixture>(f: F) {
    for (name, mut client) in f.clients().await {
        assert_eq!(client.enqueue_all(Vec::new()).await.unwrap(), [], "{name}");
    }
    assert_eq!(count(&f).await, 0);
}

pub(crate) async fn an_invalid_job_is_refused_and_the_transaction_goes_on<F: Fixture>(f: F) {
    let mut accepted = 0;
    for (name, mut client) in f.clients().await {
        let invalid = [
            with(|job| job.max_attempts = 0),
            with(|job| job.kind = "".into()),
            with(|job| job.queue = "a\0b".into()),
            with(|job| job.queue = "tenant-*".into()),
            with(|job| job.run_at = RunAt::After(std::time::Duration::MAX)),
        ];
        client.begin().await;
        for job in invalid {
            let error = client.enqueue(job.clone()).await.unwrap_err();
            assert!(error.is_invalid_job(), "{name}: {error}");
            // If one job is invalid, none is enqueued.
            let error = client.enqueue_all(vec![crate::bench::job(), job]).await.unwrap_err();
            assert!(error.is_invalid_job(), "{name}: {error}");
        }
        let id = client.enqueue(job()).await.unwrap();
        client.commit().await;
        assert_eq!(state(f.database(), id).await, JobState::Available, "{name}");
        accepted += 1;
        assert_eq!(count(&f).await, accepted, "{name}");
    }
}

pub(crate) async fn arguments_above_the_limit_are_refused_and_those_at_the_limit_are_not<F: Fixture>(f: F) {
    let sized = |bytes: usize| NewJob::raw("a", format!("\"{}\"", "x".repeat(bytes - 2)));
    for (name, mut client) in f.clients().await {
        match client.enqueue(sized(300 * 1024)).await.unwrap_err() {
            EnqueueError::Invalid(InvalidJob::TooLarge { bytes, .. }) => assert_eq!(bytes, 300 * 1024, "{name}"),
            other => panic!("{name}: {other}"),
        }
        let ids = client.enqueue_all(vec![sized(MAX_ARGS_BYTES); 40]).await.unwrap();
        assert_eq!(record(f.database(), ids[39]).await.args.len(), MAX_ARGS_BYTES, "{name}");
    }
}

pub(crate) async fn arguments_that_no_worker_could_read_are_refused<F: Fixture>(f: F) {
    let worker = worker(f.database()).await;
    let list = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    let object = |levels: usize| format!("{}1{}", "{\"a\":".repeat(levels), "}".repeat(levels));
    for (name, mut client) in f.clients().await {
        client.begin().await;
        for args in [list(128), object(128), list(4000), format!("{{\"b\":[{}]}}", object(126))] {
            let deep = NewJob::raw("a", args);
            for error in [
                client.enqueue(deep.clone()).await.unwrap_err(),
                client.enqueue_all(vec![job(), deep.clone()]).await.unwrap_err(),
            ] {
                assert!(matches!(error, EnqueueError::Invalid(InvalidJob::TooDeep { .. })), "{name}: {error}");
            }
            let unique = deep.unique(Unique::new()).unwrap_err();
            assert!(matches!(unique, InvalidJob::TooDeep { .. }), "{unique}");
        }
        for args in [list(127), object(127)] {
            client.enqueue(NewJob::raw("a", args)).await.unwrap();
        }
        client.commit().await;
        let jobs = claim(f.database(), worker, 5).await;
        assert_eq!(jobs.len(), 2, "{name}");
        for job in jobs {
            serde_json::from_slice::<serde_json::Value>(&job.args).unwrap();
        }
    }
}

pub(crate) async fn nul_and_other_characters_in_arguments_come_back<F: Fixture>(f: F) {
    let worker = worker(f.database()).await;
    let text = "NUL \0, quotes '\"`, emoji 🦀, a lone backslash \\, line\nbreak, \u{7f}\u{1}";
    for (name, mut client) in f.clients().await {
        let id = client.enqueue(NewJob::raw("a", serde_json::to_string(text).unwrap())).await.unwrap();
        let jobs = claim(f.database(), worker, 1).await;
        assert_eq!(ids(&jobs), [id], "{name}");
        assert_eq!(serde_json::from_slice::<String>(&jobs[0].args).unwrap(), text, "{name}");
    }
}

pub(crate) async fn hostile_names_are_only_names<F: Fixture>(f: F) {
    let worker = worker(f.database()).await;
    for hostile in
        ["'; drop table jobs_job; --", "\"quoted\"", "{a,b}", "% _ ?1 $1", "ünï🦀", " ", "back\\slash", "`tick`"]
    {
        let id = enqueue(
            &f,
            with(|job| {
                job.kind = hostile.to_owned().into();
                job.queue = hostile.to_owned().into();
                job.tags = vec![hostile.to_owned()];
            }),
        )
        .await;
        let job = record(f.database(), id).await;
        assert_eq!((&*job.kind, &*job.queue, &*job.tags), (hostile, hostile, &[hostile.to_owned()][..]));
        let mut wanted = wants(worker, &[(hostile, 1)]);
        wanted.kinds = std::sync::Arc::new([hostile.to_owned()]);
        assert_eq!(f.database().storage.next_due(&wanted, ANY_TIME).await.unwrap(), Some(std::time::Duration::ZERO));
        assert_eq!(ids(&f.database().storage.claim(&wanted).await.unwrap()), [id], "{hostile:?}");
    }
}

pub(crate) async fn a_start_in_the_past_is_now<F: Fixture>(f: F) {
    for (name, mut client) in f.clients().await {
        let id = client.enqueue(with(|job| job.run_at = RunAt::At(Utc::now() - TimeDelta::days(3)))).await.unwrap();
        let job = record(f.database(), id).await;
        assert!(close(job.run_at, job.enqueued_at), "{name}: {} {}", job.run_at, job.enqueued_at);
        // The jobs of a tick have its time.
        let tick = Utc::now() - TimeDelta::days(3);
        let exactly = || with(|job| job.run_at = RunAt::Exactly(tick));
        let mut ids = vec![client.enqueue(exactly()).await.unwrap()];
        ids.extend(client.enqueue_all(vec![exactly(), exactly()]).await.unwrap());
        ids.push(client.enqueue_all(vec![exactly(), crate::bench::job()]).await.unwrap()[0]);
        for id in ids {
            let run_at = record(f.database(), id).await.run_at;
            assert_eq!(run_at.timestamp_micros(), tick.timestamp_micros(), "{name}");
        }
        let at = Utc::now() + TimeDelta::days(3);
        let id = client.enqueue(with(|job| job.run_at = RunAt::At(at))).await.unwrap();
        assert_eq!(record(f.database(), id).await.run_at.timestamp_micros(), at.timestamp_micros(), "{name}");
    }
}

pub(crate) async fn a_missing_schema_says_what_to_run<F: Fixture>(_: F) {
    let f = F::empty().await;
    for (name, mut client) in f.clients().await {
        let error = client.enqueue(job()).await.unwrap_err();
        assert!(
            matches!(error, EnqueueError::Schema(_)) && error.to_string().contains("worker migrate"),
            "{name}: {error}"
        );
    }
}
