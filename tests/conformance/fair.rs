//! Tenants: those that wait for the same key of a limit take turns.

use std::collections::BTreeMap;
use std::time::Duration;

use diesel_jobs_core::storage::{Action, Operated};
use diesel_jobs_core::{JobId, JobState, Limit, NewJob, Reason, RunAt, WorkerId, flags};

use crate::bench::*;
use crate::fixture::Fixture;
use crate::limiting::admit;

/// A job of this tenant. This many of all tenants run at once.
pub(crate) fn of(tenant: char, most: u32) -> NewJob {
    job().rule(Limit::new("reports", most).fair_by(tenant)).unwrap()
}

/// Jobs and their tenants.
struct Served<'f, F> {
    f: &'f F,
    worker: WorkerId,
    tenants: BTreeMap<JobId, char>,
}

impl<'f, F: Fixture> Served<'f, F> {
    async fn new(f: &'f F) -> Self {
        Self { f, worker: worker(f.database()).await, tenants: BTreeMap::new() }
    }

    async fn add(&mut self, tenant: char, jobs: Vec<NewJob>) -> Vec<JobId> {
        let ids = enqueue_all(self.f, jobs).await;
        self.tenants.extend(ids.iter().map(|id| (*id, tenant)));
        ids
    }

    /// Adds this many jobs of each of these tenants. This many run at once.
    async fn wait(&mut self, tenants: &[(char, usize)], most: u32) {
        for (tenant, jobs) in tenants {
            self.add(*tenant, vec![of(*tenant, most); *jobs]).await;
        }
    }

    /// Passes of admission, until one finds nothing more. Then the available jobs run. Returns their tenants, sorted.
    async fn next(&self) -> String {
        let db = self.f.database();
        while db.storage.admit(false).await.unwrap().more {}
        let jobs = claim(db, self.worker, 1000).await;
        let mut tenants: Vec<char> = jobs.iter().map(|job| self.tenants[&job.lease.job]).collect();
        for job in jobs {
            assert!(finish(db, &job, DONE).await);
        }
        tenants.sort_unstable();
        tenants.into_iter().collect()
    }

    /// The tenants of the next jobs, one pass after the other.
    async fn all(&self) -> String {
        let mut all = String::new();
        loop {
            let next = self.next().await;
            if next.is_empty() {
                return all;
            }
            all.push_str(&next);
        }
    }
}

async fn turns<F: Fixture>(f: &F) -> i64 {
    f.client().await.number(&format!("select count(*) as number from {}", F::table("fair_turn"))).await
}

pub(crate) async fn each_way_of_enqueueing_stores_the_tenant<F: Fixture>(f: F) {
    let db = f.database();
    for (name, mut client) in f.clients().await {
        let mut ids = client.enqueue_all(vec![of('a', 2), job(), of('b', 2)]).await.unwrap();
        ids.remove(1);
        ids.push(client.enqueue(of('c', 2)).await.unwrap());
        for (id, tenant) in ids.iter().zip(["a", "b", "c"]) {
            let job = record(db, *id).await;
            assert_eq!(job.state, JobState::Held, "{name}");
            assert_eq!(job.flags & (flags::LIMITED | flags::FAIR), flags::LIMITED | flags::FAIR, "{name}");
            assert_eq!(job.rules[0].tenant, Some(format!("[\"{tenant}\"]")), "{name}");
        }
        // Bulks of jobs that are alike except their tenants.
        ids.extend(client.enqueue_all(vec![of('d', 2), of('e', 2)]).await.unwrap());
        assert_eq!(record(db, ids[4]).await.rules[0].tenant.as_deref(), Some("[\"e\"]"), "{name}");
        let plain = job().rule(Limit::new("reports", 2)).unwrap();
        ids.extend(client.enqueue_all(vec![of('d', 2), plain.clone()]).await.unwrap());
        ids.extend(client.enqueue_all(vec![plain, of('d', 2)]).await.unwrap());
        for (place, has_tenant) in [(5, true), (6, false), (7, false), (8, true)] {
            let job = record(db, ids[place]).await;
            assert_eq!(
                (job.flags & flags::FAIR != 0, job.rules[0].tenant.is_some()),
                (has_tenant, has_tenant),
                "{name}"
            );
        }
        assert_eq!(db.operator.act(&Action::Delete, &ids, "ann").await.unwrap(), [Operated::Done; 9], "{name}");
    }
}

pub(crate) async fn all_tenants_that_wait_get_equal_shares<F: Fixture>(f: F) {
    let mut served = Served::new(&f).await;
    served.wait(&[('a', 200), ('b', 70), ('c', 70)], 7).await;
    let mut shares = BTreeMap::from([('a', 0), ('b', 0), ('c', 0)]);
    for pass in 1..=28 {
        let next = served.next().await;
        assert_eq!(next.len(), 7, "pass {pass}");
        for tenant in next.chars() {
            *shares.entry(tenant).or_default() += 1;
        }
        let (least, most) = (*shares.values().min().unwrap(), *shares.values().max().unwrap());
        assert!(most - least <= 1, "pass {pass}: {shares:?}");
    }
}

pub(crate) async fn a_tenant_with_many_jobs_delays_no_other<F: Fixture>(f: F) {
    let mut served = Served::new(&f).await;
    served.wait(&[('a', 100), ('b', 5), ('c', 5)], 3).await;
    for _ in 0..5 {
        assert_eq!(served.next().await, "abc");
    }
    assert_eq!(served.next().await, "aaa", "no permit stays free");
    assert_eq!(served.all().await, "a".repeat(92));
}

pub(crate) async fn with_one_permit_the_turn_goes_on_from_pass_to_pass<F: Fixture>(f: F) {
    let mut served = Served::new(&f).await;
    served.wait(&[('a', 4), ('b', 2), ('c', 3)], 1).await;
    assert_eq!(served.all().await, "abcabcaca");
}

pub(crate) async fn a_tenant_that_comes_later_has_its_turn_in_one_round<F: Fixture>(f: F) {
    let mut served = Served::new(&f).await;
    served.wait(&[('a', 9), ('c', 9)], 1).await;
    assert_eq!(served.next().await + &served.next().await, "ac");
    served.wait(&[('b', 2), ('d', 1)], 1).await;
    let mut next = String::new();
    for _ in 0..8 {
        next += &served.next().await;
    }
    assert_eq!(next, "dabcabca");
}

pub(crate) async fn the_order_within_a_tenant_is_the_usual_one<F: Fixture>(f: F) {
    let db = f.database();
    let mut served = Served::new(&f).await;
    let mut jobs = vec![of('a', 1); 4];
    jobs[2].priority = 5;
    jobs[3].run_at = RunAt::At(now(db).await - MINUTE);
    let ids = served.add('a', jobs).await;
    served.wait(&[('b', 9)], 1).await;
    let mut order = Vec::new();
    for pass in 0..8 {
        assert_eq!(admit(db).await, 1);
        let job = claim(db, served.worker, 9).await.remove(0);
        let is_of_a = served.tenants[&job.lease.job] == 'a';
        assert_eq!(is_of_a, pass % 2 == 0, "a higher priority is no earlier turn");
        order.extend(is_of_a.then_some(job.lease.job));
        assert!(finish(db, &job, DONE).await);
    }
    // An enqueue stores no time that has passed.
    assert_eq!(order, [ids[2], ids[0], ids[1], ids[3]]);
}

pub(crate) async fn few_tenants_fill_all_permits<F: Fixture>(f: F) {
    let mut served = Served::new(&f).await;
    served.wait(&[('a', 100), ('b', 1), ('c', 2)], 20).await;
    assert_eq!(served.next().await, format!("{}bcc", "a".repeat(17)));
    assert_eq!(served.next().await, "a".repeat(20));
}

pub(crate) async fn each_key_has_turns_of_its_own<F: Fixture>(f: F) {
    let db = f.database();
    let mut served = Served::new(&f).await;
    let of = |key: &str, tenant: char| job().rule(Limit::new("reports", 1).key(key).fair_by(tenant)).unwrap();
    for tenant in ['a', 'b'] {
        served.add(tenant, vec![of("x", tenant), of("y", tenant), of("y", tenant)]).await;
    }
    let plain = enqueue(&f, job()).await;
    served.tenants.insert(plain, '-');
    let ordered = enqueue_all(&f, vec![crate::limiting::limited("x"); 3]).await;
    served.tenants.extend(ordered.into_iter().map(|id| (id, '+')));
    assert_eq!(served.next().await, "++-aa");
    assert_eq!(served.next().await, "+bb");
    assert_eq!(served.all().await, "ab");
    assert_eq!(turns(&f).await, 2);
    db.storage.admit(true).await.unwrap();
    assert_eq!(turns(&f).await, 0, "of keys without jobs no row stays");
}

/// More of them than a pass looks at while tenants wait.
pub(crate) async fn jobs_without_a_tenant_start_at_once_when_no_tenant_waits<F: Fixture>(f: F) {
    let mut served = Served::new(&f).await;
    served.wait(&[('a', 3), ('b', 3)], 100).await;
    assert_eq!(served.next().await, "aaabbb");
    served.add('-', vec![job().rule(Limit::new("reports", 100)).unwrap(); 100]).await;
    assert_eq!(served.next().await, "-".repeat(100));
}

pub(crate) async fn a_turn_is_kept_while_jobs_wait_or_run<F: Fixture>(f: F) {
    let db = f.database();
    let mut served = Served::new(&f).await;
    served.wait(&[('a', 2), ('b', 1)], 1).await;
    assert_eq!(admit(db).await, 1);
    db.storage.admit(true).await.unwrap();
    assert_eq!(turns(&f).await, 1);
    assert_eq!(served.next().await, "a");
    assert_eq!(admit(db).await, 1);
    let of_b = claim(db, served.worker, 9).await.remove(0);
    assert_eq!(served.tenants[&of_b.lease.job], 'b');
    let last = claim(db, served.worker, 9).await;
    assert!(last.is_empty());
    db.storage.admit(true).await.unwrap();
    assert!(finish(db, &of_b, DONE).await);
    assert_eq!(admit(db).await, 1);
    // No job waits, and the last one runs.
    db.storage.admit(true).await.unwrap();
    assert_eq!(turns(&f).await, 1);
    served.wait(&[('a', 1), ('b', 1)], 1).await;
    assert_eq!(served.all().await, "aba");
}

pub(crate) async fn jobs_without_a_tenant_are_one_tenant<F: Fixture>(f: F) {
    let mut served = Served::new(&f).await;
    served.add('-', vec![job().rule(Limit::new("reports", 1)).unwrap(); 3]).await;
    served.wait(&[('a', 3), ('b', 3)], 1).await;
    assert_eq!(served.all().await, "ab-ab-ab-");
    // Behind many others they wait for longer, and not for ever.
    served.wait(&[('a', 60)], 1).await;
    served.add('-', vec![job().rule(Limit::new("reports", 1)).unwrap(); 3]).await;
    let all = served.all().await;
    assert_eq!((all.len(), all.matches('-').count()), (63, 3), "{all}");
}

pub(crate) async fn paused_jobs_lose_their_turn_and_delay_no_other<F: Fixture>(f: F) {
    let db = f.database();
    let mut served = Served::new(&f).await;
    let mut elsewhere = of('a', 2);
    elsewhere.queue = "paused".into();
    // More than a pass examines.
    let paused = served.add('a', vec![elsewhere; 600]).await;
    served.wait(&[('a', 1), ('b', 2), ('c', 2)], 2).await;
    db.operator.pause_queue("paused", "ann", None).await.unwrap();
    let all = served.all().await;
    assert_eq!(all.len(), 5, "{all}");
    assert_eq!(all.matches('a').count(), 1);
    db.operator.resume_queue("paused", "ann").await.unwrap();
    served.wait(&[('b', 2)], 2).await;
    while db.storage.admit(true).await.unwrap().sweep_again {}
    assert_eq!(state(db, paused[0]).await, JobState::Available);
    assert_eq!(claim(db, served.worker, 9).await.len(), 1, "of b, in the other queue");
}

pub(crate) async fn what_operators_set_holds_for_all_tenants<F: Fixture>(f: F) {
    let db = f.database();
    let mut served = Served::new(&f).await;
    served.wait(&[('a', 9), ('b', 9), ('c', 9)], 1).await;
    assert_eq!(served.next().await, "a");
    assert!(db.operator.set_limit("reports", 4, "ann", None).await.unwrap());
    assert_eq!(served.next().await, "abbc");
    assert!(db.operator.set_limit("reports", 0, "ann", None).await.unwrap());
    assert_eq!(served.next().await, "");
    assert!(db.operator.reset_limit("reports", "ann").await.unwrap());
    assert_eq!(served.next().await, "c");
}

pub(crate) async fn a_retry_waits_for_a_turn_of_its_tenant<F: Fixture>(f: F) {
    let db = f.database();
    let mut served = Served::new(&f).await;
    served.wait(&[('a', 2), ('b', 2)], 1).await;
    assert_eq!(admit(db).await, 1);
    let first = claim(db, served.worker, 9).await.remove(0);
    assert!(finish(db, &first, retry_in(Duration::ZERO)).await);
    let again = record(db, first.lease.job).await;
    assert_eq!((again.state, again.rules[0].tenant.as_deref()), (JobState::Held, Some(r#"["a"]"#)));
    assert_eq!(served.all().await, "baba");
    let none = f.client().await.number(&format!("select count(*) as number from {}", F::table("permit"))).await;
    assert_eq!(none, 0);
}

pub(crate) async fn a_rescued_job_keeps_its_permit_and_a_cancelled_one_gives_it_back<F: Fixture>(f: F) {
    let db = f.database();
    let mut served = Served::new(&f).await;
    served.wait(&[('a', 2), ('b', 1)], 1).await;
    let dead = mortal(db).await;
    assert_eq!(admit(db).await, 1);
    let job = claim(db, dead, 9).await.remove(0);
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert_eq!(rescue(db, POLICY).await.returned.len(), 1);
    assert_eq!(admit(db).await, 0);
    let cancelled = db.operator.act(&Action::Cancel, &[job.lease.job], "ann").await.unwrap();
    assert_eq!(cancelled, [Operated::Done]);
    assert_eq!(served.all().await, "ba");
}

pub(crate) async fn a_sweep_finds_tenants_without_a_nudge<F: Fixture>(f: F) {
    let db = f.database();
    let mut served = Served::new(&f).await;
    served.wait(&[('a', 2), ('b', 2)], 2).await;
    let mut later = of('c', 2);
    later.run_at = RunAt::After(HOUR);
    let later = served.add('c', vec![later]).await[0];
    f.client().await.execute(&format!("delete from {}", F::table("nudge"))).await.unwrap();
    assert_eq!(admit(db).await, 0);
    assert_eq!(db.storage.admit(true).await.unwrap().admitted, 2);
    assert_eq!(served.next().await, "ab");
    f.client().await.execute(&F::passed(HOUR)).await.unwrap();
    assert_eq!(state(db, later).await, JobState::Held);
    assert_eq!(db.storage.admit(true).await.unwrap().admitted, 2);
    assert_eq!(served.next().await, "ac");
}

pub(crate) async fn why_says_with_whom_the_tenant_takes_turns<F: Fixture>(f: F) {
    let db = f.database();
    let mut served = Served::new(&f).await;
    served.wait(&[('a', 3), ('b', 1)], 1).await;
    let why = async |place: usize| {
        let id = *served.tenants.keys().nth(place).unwrap();
        let why = db.operator.why(id).await.unwrap();
        let held = why.reasons.into_iter().find_map(|explained| match explained.reason {
            Reason::Held(by) => Some((by.ahead, by.other_tenants, explained.text)),
            _ => None,
        });
        held.unwrap()
    };
    let (_, _, text) = why(2).await;
    assert!(
        text.contains("so a permit is free; the next pass of admission takes the next job; the job's tenant is"),
        "{text}"
    );
    assert_eq!(admit(db).await, 1);
    let (ahead, others, text) = why(2).await;
    assert_eq!((ahead, others), (1, Some(1)));
    let words = "1 is taken: ";
    assert!(text.contains(words), "{text}");
    let words =
        r#"the job's tenant is ["a"]: it takes turns with 1 other tenant, and 1 of its jobs comes before this one"#;
    assert!(text.contains(words), "{text}");
    let (ahead, others, text) = why(3).await;
    assert_eq!((ahead, others), (0, Some(1)), "the jobs of other tenants are not before it");
    assert!(text.contains("none of its jobs comes before this one"), "{text}");
    let many = (0..102).map(|tenant| job().rule(Limit::new("reports", 1).fair_by(tenant)).unwrap()).collect();
    enqueue_all(&f, many).await;
    let (_, others, text) = why(3).await;
    assert_eq!(others, Some(101));
    assert!(text.contains("turns with more than 100 other tenants"), "{text}");
}
