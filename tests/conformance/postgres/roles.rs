//! The two roles of `migrations/postgres/roles.sql`, on a real server: each may do everything that it is for, and
//! nothing else. Every grant is needed.

mod allowed;
mod forbidden;

use diesel::QueryableByName;
use diesel::sql_types::Text;
use diesel_async::{AsyncConnection, AsyncPgConnection, RunQueryDsl, SimpleAsyncConnection};
use diesel_jobs_storage::Database;
use diesel_jobs_storage::migrations::LiveJobs;

use super::{Postgres, admin, admin_at_the_end};
use crate::examining::{found, none, one};
use crate::fixture::{Port as _, open, run};

/// A database with the two roles under other names than in the script, and a login role in each.
struct Roles {
    f: Option<Postgres>,
    enqueuer: String,
    worker: String,
}

/// Whether the server denied something. `cargo xtask test` runs these tests in German.
fn is_denied(refusal: &str) -> bool {
    refusal.contains("permission denied") || refusal.contains("keine Berechtigung")
}

#[derive(QueryableByName)]
struct Line {
    #[diesel(sql_type = Text)]
    line: String,
}

impl Roles {
    async fn of(f: Postgres) -> Self {
        let (enqueuer, worker) = (format!("{}_enq", f.name), format!("{}_work", f.name));
        let script = diesel_jobs_storage::migrations::POSTGRES_ROLES.replace("jobs_enqueuer", &enqueuer);
        let mut owner = AsyncPgConnection::establish(&f.url).await.unwrap();
        let script = script.replace("jobs_worker", &worker);
        // What `alter default privileges revoke execute on functions from public` leads to.
        owner.batch_execute("revoke execute on all functions in schema jobs from public").await.unwrap();
        // Twice, because the script is run again after an upgrade.
        for _ in 0..2 {
            owner.batch_execute(&script).await.unwrap();
        }
        for role in [&enqueuer, &worker] {
            admin(&format!("create role {role}_login login in role {role}")).await;
        }
        // A grant on the application's own table.
        owner.batch_execute(&format!("grant insert on effect to {worker}")).await.unwrap();
        Self { f: Some(f), enqueuer, worker }
    }

    fn f(&self) -> &Postgres {
        self.f.as_ref().expect("it is taken at the end")
    }

    /// The URL of the database for a login in this role.
    fn url_as(&self, role: &str) -> String {
        let (_, place) = self.f().url.split_once('@').expect("the tests' URL names its user");
        format!("postgres://{role}_login@{place}")
    }

    async fn database_as(&self, role: &str) -> Database {
        open(&self.url_as(role)).await
    }

    async fn connection_as(&self, role: &str) -> AsyncPgConnection {
        AsyncPgConnection::establish(&self.url_as(role)).await.unwrap()
    }

    /// Returns statements that revoke each single privilege of a role.
    async fn revokes(&self, role: &str) -> Vec<String> {
        let lines: Vec<Line> = diesel::sql_query(format!(
            "with privilege as (
    select privilege_type, 'schema jobs' as what, grantee from pg_namespace, aclexplode(nspacl) where nspname = 'jobs'
    union all
    select privilege_type, case relkind when 'S' then 'sequence ' else '' end || oid::regclass, grantee
    from pg_class, aclexplode(relacl) where relnamespace = 'jobs'::regnamespace
    union all
    select format('%s (%I)', privilege_type, attname), attrelid::regclass::text, grantee
    from pg_attribute, aclexplode(attacl) where attrelid::regclass::text like 'jobs.%'
)
select format('revoke %s on %s from %s', privilege_type, what, grantee::regrole) as line
from privilege where grantee = '{role}'::regrole order by line"
        ))
        .load(&mut AsyncPgConnection::establish(&self.f().url).await.unwrap())
        .await
        .unwrap();
        lines.into_iter().map(|line| line.line).collect()
    }

    /// Revokes each privilege of the role in turn, and grants it again. Meanwhile something that the role is for must
    /// fail.
    async fn each_is_missed(&self, role: &str, privileges: usize, mut try_all: impl AsyncFnMut() -> Option<String>) {
        assert_eq!(try_all().await, None);
        let revokes = self.revokes(role).await;
        assert_eq!(revokes.len(), privileges, "{revokes:#?}");
        let mut owner = AsyncPgConnection::establish(&self.f().url).await.unwrap();
        for revoke in revokes {
            owner.batch_execute(&revoke).await.unwrap();
            let refusal = try_all().await.unwrap_or_else(|| panic!("nobody missed it: {revoke}"));
            assert!(is_denied(&refusal), "{revoke}: {refusal}");
            let grant = revoke.replacen("revoke", "grant", 1).replace(" from ", " to ");
            owner.batch_execute(&grant).await.unwrap();
        }
        assert_eq!(try_all().await, None);
    }
}

impl Drop for Roles {
    fn drop(&mut self) {
        // The other grants are dropped with the database. The roles can be dropped only after that.
        drop(self.f.take());
        if !std::thread::panicking() {
            let roles = [&self.enqueuer, &self.worker];
            admin_at_the_end(roles.map(|role| cluster::drop_roles(&[&format!("{role}_login"), role])).to_vec());
        }
    }
}

#[test]
fn the_enqueuer_can_enqueue_in_every_way_and_needs_each_grant() {
    run::<Postgres, _>(async |f: Postgres| {
        let roles = Roles::of(f).await;
        let mut clients = super::clients_of(&roles.url_as(&roles.enqueuer)).await;
        roles.each_is_missed(&roles.enqueuer, 41, async || allowed::enqueueing(&roles, &mut clients).await).await;
    });
}

#[test]
fn the_worker_can_do_every_verb_and_needs_each_grant() {
    run::<Postgres, _>(async |f: Postgres| {
        let roles = Roles::of(f).await;
        let db = roles.database_as(&roles.worker).await;
        let mut clients = super::clients_of(&roles.url_as(&roles.worker)).await;
        roles.each_is_missed(&roles.worker, 116, async || allowed::working(&roles, &db, &mut clients).await).await;
    });
}

#[test]
fn the_enqueuer_can_do_nothing_else() {
    run::<Postgres, _>(async |f: Postgres| {
        let roles = Roles::of(f).await;
        let mut conn = roles.connection_as(&roles.enqueuer).await;
        forbidden::statements(&mut conn, forbidden::TO_BOTH).await;
        forbidden::statements(&mut conn, forbidden::TO_ENQUEUERS).await;
        forbidden::operations(&roles.database_as(&roles.enqueuer).await).await;
    });
}

#[test]
fn the_worker_changes_no_schema_and_forges_nothing() {
    run::<Postgres, _>(async |f: Postgres| {
        let roles = Roles::of(f).await;
        let mut conn = roles.connection_as(&roles.worker).await;
        forbidden::statements(&mut conn, forbidden::TO_BOTH).await;
        forbidden::statements(&mut conn, forbidden::TO_WORKERS).await;
        let refusal =
            roles.database_as(&roles.worker).await.migrator.down(LiveJobs::Keep).await.unwrap_err().to_string();
        assert!(refusal.contains("must be owner"), "{refusal}");
    });
}

#[test]
fn the_error_of_a_missing_grant_names_the_command_to_run() {
    run::<Postgres, _>(async |f: Postgres| {
        let roles = Roles::of(f).await;
        let (_, mut client) = super::clients_of(&roles.url_as(&roles.worker)).await.swap_remove(0);
        let revoke = format!("revoke insert on jobs.ready from {}", roles.worker);
        AsyncPgConnection::establish(&roles.f().url).await.unwrap().batch_execute(&revoke).await.unwrap();
        let refusals = [
            client.enqueue(crate::bench::job()).await.unwrap_err().to_string(),
            roles.database_as(&roles.enqueuer).await.operator.workers().await.unwrap_err().to_string(),
        ];
        for refusal in refusals {
            assert!(is_denied(&refusal) && refusal.contains("migrate roles"), "{refusal}");
        }
    });
}

#[test]
fn the_doctor_names_a_function_that_the_role_may_not_execute() {
    run::<Postgres, _>(async |f: Postgres| {
        let roles = Roles::of(f).await;
        let db = roles.database_as(&roles.worker).await;
        none(&db, "rights").await;
        let mut owner = AsyncPgConnection::establish(&roles.f().url).await.unwrap();
        for (number, function) in [(1, "jobs.wake"), (2, "jobs.act")] {
            owner.batch_execute(&format!("revoke execute on function {function} from {}", roles.worker)).await.unwrap();
            let finding = one(&db, "rights").await;
            let words = format!("functions of the schema jobs that a worker needs ({number}, such as {function}(");
            assert!(finding.what.contains(&format!("{}_login", roles.worker)), "{finding:?}");
            assert!(finding.what.contains(&words) && finding.repair.contains("migrate roles"), "{finding:?}");
        }
    });
}

#[test]
fn the_doctor_sees_each_sequence_that_is_behind_as_the_owner_does() {
    run::<Postgres, _>(async |f: Postgres| {
        let roles = Roles::of(f).await;
        let db = roles.database_as(&roles.worker).await;
        let mut owner = AsyncPgConnection::establish(&roles.f().url).await.unwrap();
        let used = "select jobs.enqueue('a');
            insert into jobs.job_error (job_id, attempt, kind, message) values (1, 1, 'error', 'no');
            insert into jobs.dead_letter (id, kind, queue, reason, job) values (1, 'a', 'q', 'no', '{}');
            insert into jobs.history (at, queue, kind) values (now(), 'q', 'a');
            insert into jobs.operation (action, filter, actor, last_id) values ('cancel', '{}', 'ada', 0);
            insert into jobs.audit (actor, action, target) values ('ada', 'pause', 'queue q')";
        owner.batch_execute(used).await.unwrap();
        none(&db, "sequence").await;
        let behind = "select setval(oid::regclass, 1, false) from pg_class where relnamespace = 'jobs'::regnamespace and relkind = 'S'";
        owner.batch_execute(behind).await.unwrap();
        let findings = found(&db, "sequence").await;
        assert_eq!(findings.len(), 6, "{findings:#?}");
        assert_eq!(findings, found(roles.f().database(), "sequence").await);
    });
}

#[test]
fn check_schema_reports_that_row_level_security_hides_the_jobs() {
    run::<Postgres, _>(async |f: Postgres| {
        let roles = Roles::of(f).await;
        let db = roles.database_as(&roles.worker).await;
        let mut owner = AsyncPgConnection::establish(&roles.f().url).await.unwrap();
        db.storage.check_schema().await.unwrap();
        for table in ["ready", "schema_migration"] {
            owner.batch_execute(&format!("alter table jobs.{table} enable row level security")).await.unwrap();
            // A policy for another role still hides the rows from this one.
            let policy = |role: &str| format!("create policy p_{role} on jobs.{table} to {role} using (true)");
            owner.batch_execute(&policy(&roles.enqueuer)).await.unwrap();
            let refusal = db.storage.check_schema().await.unwrap_err().to_string();
            assert!(refusal.contains(&format!("hides all rows of jobs.{table} from this role")), "{refusal}");
            let policies = [
                format!("create policy p_false on jobs.{table} to public using (false)"),
                format!("create policy p_insert on jobs.{table} for insert to public with check (true)"),
            ];
            for policy in policies {
                owner.batch_execute(&policy).await.unwrap();
                let refusal = db.storage.check_schema().await.unwrap_err().to_string();
                assert!(
                    refusal.contains(&format!("hides all rows of jobs.{table} from this role")),
                    "{policy}: {refusal}"
                );
            }
            owner.batch_execute(&policy(&roles.worker)).await.unwrap();
            db.storage.check_schema().await.unwrap();
            let restrict = |condition: &str| {
                format!("create policy p_restrict on jobs.{table} as restrictive to public using ({condition})")
            };
            owner.batch_execute(&restrict("true")).await.unwrap();
            db.storage.check_schema().await.unwrap();
            owner
                .batch_execute(&format!("drop policy p_restrict on jobs.{table}; {}", restrict("false")))
                .await
                .unwrap();
            let refusal = db.storage.check_schema().await.unwrap_err().to_string();
            assert!(refusal.contains(&format!("hides all rows of jobs.{table} from this role")), "{refusal}");
            owner.batch_execute(&format!("drop policy p_restrict on jobs.{table}")).await.unwrap();
            db.storage.check_schema().await.unwrap();
            roles.f().database().storage.check_schema().await.unwrap();
        }
    });
}
