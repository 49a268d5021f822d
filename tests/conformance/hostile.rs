//! Ten thousand hostile strings, as names of everything that has a name. Each is stored unchanged or refused with a
//! typed error. Afterwards the schema is the same as before.

mod names;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use diesel_jobs_core::storage::{Claim, DeclaredSchedule, JobFilter, RescanReason, Wanted, WorkerInfo};
use diesel_jobs_core::{
    CatchUp, ClaimedJob, Failure, FailureKind, Finish, JobId, NewJob, Schedule, StorageError, Transition, WorkerId,
};

use crate::bench::*;
use crate::fixture::Fixture;

pub(crate) use names::{LONGEST, is_storable, names};

/// The number of queues in one claim.
const CHUNK: usize = 50;
/// Only one of this many claims is made, because they are slow on a SQLite that was compiled without optimisation.
const EVERY: usize = 4;
/// The number of names that are tried where each one costs an expensive statement, or several statements.
const SOME: usize = 150;

/// Returns a job that has this name in every field that can have it.
pub(crate) fn named(name: &str) -> NewJob {
    with(|job| {
        job.kind = name.to_owned().into();
        job.queue = name.to_owned().into();
        job.tags = vec![name.to_owned(), "tag".to_owned()];
        job.args = serde_json::to_string(name).unwrap();
    })
}

/// Returns a number computed from the schema, and the row counts of the tables whose row counts these tests do not
/// change.
pub(crate) async fn shape<F: Fixture>(f: &F) -> Vec<i64> {
    let mut client = f.client().await;
    let mut shape = vec![client.number(F::schema_in_a_number()).await];
    for table in
        ["schema_migration", "worker", "queue", "schedule"].map(F::table).iter().map(String::as_str).chain(["effect"])
    {
        shape.push(client.number(&format!("select count(*) as number from {table}")).await);
    }
    shape
}

pub(crate) async fn names_of_jobs_queues_and_tags_come_back_as_they_are<F: Fixture>(f: F) {
    let (db, names, before) = (f.database(), names(), shape(&f).await);
    let mut expected: HashMap<JobId, &str> = HashMap::new();
    let mut client = f.client().await;
    // A refused job does not abort the transaction.
    client.begin().await;
    for name in &names {
        match client.enqueue(named(name)).await {
            Ok(id) => expected.extend([(id, &**name)]),
            Err(error) => {
                assert!(error.is_invalid_job() && !is_storable(name), "{name:?}: {error}");
                assert!(client.enqueue_all(vec![job(), named(name)]).await.unwrap_err().is_invalid_job(), "{name:?}");
            }
        }
    }
    client.commit().await;
    let storable: Vec<&str> = names.iter().map(String::as_str).filter(|name| is_storable(name)).collect();
    assert_eq!(expected.len(), storable.len());
    assert!((8_000..9_900).contains(&storable.len()), "{}", storable.len());
    let ids = client.enqueue_all(storable.iter().map(|name| named(name)).collect()).await.unwrap();
    expected.extend(ids.into_iter().zip(storable.iter().copied()));

    let listed = db.operator.list_all(&JobFilter::default(), 1_000_000).await.unwrap();
    assert_eq!(listed.len(), 2 * storable.len());
    for job in &listed {
        let name = expected[&job.id];
        assert_eq!((&*job.kind, &*job.queue, &*job.tags[0], job.tags.len()), (name, name, name, 2));
        assert_eq!(serde_json::from_str::<String>(&job.args).unwrap(), name);
    }
    let stats = db.operator.stats().await.unwrap().kinds;
    assert_eq!(stats.len(), storable.len());
    assert!(stats.iter().all(|row| row.kind == row.queue && row.available == 2));
    filters_find_exactly_theirs(&f, &names).await;
    jobs_are_claimed_and_finished_under_their_names(&f, &storable).await;
    assert_eq!(shape(&f).await, before);
}

async fn filters_find_exactly_theirs<F: Fixture>(f: &F, names: &[String]) {
    for name in names.iter().take(SOME) {
        let of_queue = JobFilter::of_queue(name.clone());
        for filter in [of_queue.clone(), JobFilter { kinds: vec![name.clone()], ..of_queue }] {
            match f.database().operator.list_all(&filter, 9).await {
                Ok(jobs) => assert_eq!(jobs.len(), if is_storable(name) { 2 } else { 0 }, "{name:?}"),
                Err(error) => {
                    let is_too_long = name.len() > 1000;
                    assert!(matches!(error, StorageError::Config(_)), "{name:?}: {error}");
                    assert!(name.contains(['\0', '*']) || is_too_long, "{name:?}: {error}");
                }
            }
        }
    }
}

/// There are two jobs of each name. One is retried with a failure of that text, the other is completed.
async fn jobs_are_claimed_and_finished_under_their_names<F: Fixture>(f: &F, storable: &[&str]) {
    let db = f.database();
    let worker = worker(db).await;
    let wanted = |names: &[&str]| Claim {
        wanted: names.iter().map(|name| Wanted::new(*name, 2)).collect(),
        kinds: names.iter().map(|name| (*name).to_owned()).collect::<Arc<[String]>>(),
        ..wants(worker, &[])
    };
    // Pausing a queue stores its name in a table.
    let (queue, job) = (F::table("queue"), F::table("job"));
    let mut client = f.client().await;
    client
        .execute(&format!("insert into {queue} (name, paused) select distinct queue, true from {job}"))
        .await
        .unwrap();
    for names in storable.chunks(CHUNK).take(SOME / CHUNK) {
        assert!(db.storage.claim(&wanted(names)).await.unwrap().is_empty(), "{names:?}");
    }
    client.execute(&format!("delete from {queue}")).await.unwrap();

    let (mut failed, mut seen) = (Vec::new(), HashSet::new());
    for names in storable.chunks(CHUNK).step_by(EVERY) {
        db.storage.rescan(&wanted(names), RescanReason::Requested).await.unwrap();
        assert_eq!(db.storage.next_due(&wanted(names), ANY_TIME).await.unwrap(), Some(Duration::ZERO));
        let jobs = db.storage.claim(&wanted(names)).await.unwrap();
        assert_eq!(jobs.len(), 2 * names.len(), "{names:?}");
        let mut finishes: Vec<Finish> = Vec::new();
        for job in jobs {
            let ClaimedJob { lease, kind, queue, args, .. } = job.clone();
            assert!(kind == queue && names.contains(&&*kind), "{kind:?} {queue:?}");
            assert_eq!(serde_json::from_slice::<String>(&args).unwrap(), kind);
            let transition = if seen.insert(kind.clone()) {
                let failure = Failure::new(FailureKind::Error, &kind);
                failed.push((lease.job, kind));
                Transition::Retry { delay: HOUR, failure }
            } else {
                DONE
            };
            finishes.push(Finish::new(&job, transition));
        }
        assert_eq!(db.storage.finish_all(&finishes).await.unwrap().len(), finishes.len());
    }
    for (id, name) in failed.iter().step_by(failed.len() / SOME) {
        let messages: Vec<String> = failures(db, *id).await.into_iter().map(|failure| failure.message).collect();
        assert_eq!(messages, std::slice::from_ref(name));
    }
    db.storage.deregister(worker).await.unwrap();
}

pub(crate) async fn names_of_schedules_zones_hosts_and_queues_served_come_back_or_are_refused<F: Fixture>(f: F) {
    let (db, names, before) = (f.database(), names(), shape(&f).await);
    for name in &names {
        assert!(Schedule::parse(name, "UTC").is_err() || name.contains('*'), "{name:?}");
        assert!(Schedule::parse("0 0 2 * * *", name).is_err(), "{name:?}");
    }
    let declared = |name: &str| DeclaredSchedule {
        name: name.to_owned(),
        expression: name.to_owned(),
        timezone: name.to_owned(),
        catch_up: CatchUp::Skip,
    };
    let storable: Vec<String> = names.iter().filter(|name| is_storable(name)).take(SOME).cloned().collect();
    let schedules: Vec<DeclaredSchedule> = storable.iter().map(|name| declared(name)).collect();
    db.storage.schedules(&schedules).await.unwrap();
    let mut stored = db.storage.schedules(&[]).await.unwrap().all;
    stored.sort_by(|one, other| one.name.cmp(&other.name));
    let mut sorted = storable.clone();
    sorted.sort();
    assert_eq!(stored.iter().map(|one| one.name.clone()).collect::<Vec<_>>(), sorted);
    for one in stored.iter().take(50) {
        assert_eq!((&one.expression, &one.timezone, &one.kind), (&one.name, &one.name, &one.name));
        assert!(db.storage.tick(one, one.last_tick + Duration::from_secs(1), &[named(&one.name)]).await.unwrap());
    }

    let with_nul: Vec<&String> = names.iter().filter(|name| name.contains('\0')).take(50).collect();
    assert_eq!(with_nul.len(), 50);
    for name in with_nul {
        if let Err(error) = db.storage.schedules(&[declared(name)]).await {
            assert!(matches!(error, StorageError::Refused(_)), "{name:?}: {error}");
        }
    }

    for name in storable.iter().take(50) {
        let id = WorkerId::generate();
        db.storage
            .register(&WorkerInfo {
                host: name.clone(),
                queues: storable.clone(),
                kinds: storable.clone(),
                ..WorkerInfo::new(id, HOUR)
            })
            .await
            .unwrap();
        let workers = db.operator.workers().await.unwrap();
        assert_eq!((workers.len(), &workers[0].host, &workers[0].queues), (1, name, &storable));
        db.storage.deregister(id).await.unwrap();
    }
    f.client().await.execute(&format!("delete from {}", F::table("schedule"))).await.unwrap();
    assert_eq!(shape(&f).await, before);
}
