//! The admissions of each tenant, and whether the tenants have taken turns.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use anyhow::Result;
use chrono::{DateTime, Utc};
use tokio_postgres::Client;

/// The most complaints.
const ENOUGH: usize = 10;

/// Records each admission: only admission deletes rows of jobs.held here. `pass` is when the transaction of the pass
/// has begun. A crash that loses an admission loses its record, too.
pub(super) const RECORD: &str = r#"create table torture.turn (number bigint not null, tenant text not null, is_first boolean not null, pass timestamptz not null, at timestamptz not null);
create function torture.record_turn() returns trigger language plpgsql security definer as $do$ begin
    insert into torture.turn (number, tenant, is_first, pass, at)
    values (substring(old.args::text from '^\{"work":\{"number":(-?[0-9]+),')::bigint, old.rules #>> '{0,tenant}', old.lease = 0, now(), clock_timestamp());
    return null;
end $do$;
create trigger record_turn after delete on jobs.held for each row execute function torture.record_turn()"#;

/// The admissions of one pass. The order within a pass is not recorded.
struct Pass {
    began: DateTime<Utc>,
    /// How many jobs of each tenant.
    tenants: BTreeMap<String, usize>,
}

/// All passes that have admitted jobs, in their order.
pub(super) struct Turns {
    passes: Vec<Pass>,
    /// The tenant of each job, and the place of the pass that has admitted it first.
    first: HashMap<i64, (String, usize)>,
}

/// What other tenants got while jobs waited.
#[derive(Debug, Default)]
pub(super) struct Waits {
    /// How many jobs were compared.
    compared: usize,
    /// How many of them were admitted while the large tenant waited.
    pub(super) beside_large: usize,
    /// The most admissions of other tenants during one wait.
    most: usize,
    pub(super) complaints: Vec<String>,
}

impl fmt::Display for Waits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { compared, beside_large, most, .. } = self;
        write!(f, "{compared} waits, {beside_large} beside the large tenant, of at most {most} admissions of others")
    }
}

impl Turns {
    pub(super) async fn load(conn: &Client) -> Result<Self> {
        let (mut passes, mut first) = (Vec::<Pass>::new(), HashMap::new());
        for row in conn.query("select number, tenant, is_first, pass from torture.turn order by at", &[]).await? {
            let (number, tenant, is_first): (i64, String, bool) = (row.get(0), row.get(1), row.get(2));
            let began: DateTime<Utc> = row.get(3);
            if passes.last().is_none_or(|pass| pass.began != began) {
                passes.push(Pass { began, tenants: BTreeMap::new() });
            }
            if is_first {
                first.insert(number, (tenant.clone(), passes.len() - 1));
            }
            if let Some(pass) = passes.last_mut() {
                *pass.tenants.entry(tenant).or_default() += 1;
            }
        }
        Ok(Self { passes, first })
    }

    /// Examines the wait of each of these jobs. `told` has the time from which on the job certainly waited. The wait
    /// consists of the passes that began after this time, and before the pass that has admitted the job.
    pub(super) fn waits(&self, told: &BTreeMap<i64, DateTime<Utc>>, large: i64) -> Waits {
        let mut waits = Waits::default();
        let large = format!("[{large}]");
        let last_of_large = self.passes.iter().rposition(|pass| pass.tenants.contains_key(&large)).unwrap_or_default();
        for (number, since) in told {
            let Some((tenant, admitted)) = self.first.get(number) else { continue };
            let mut of: BTreeMap<&str, usize> = BTreeMap::new();
            for pass in self.passes[..*admitted].iter().filter(|pass| pass.began > *since) {
                for (other, jobs) in &pass.tenants {
                    *of.entry(other).or_default() += jobs;
                }
            }
            let own = of.remove(tenant.as_str()).unwrap_or_default();
            waits.compared += 1;
            waits.beside_large += usize::from(*admitted < last_of_large);
            waits.most = waits.most.max(of.values().sum());
            if let Some((other, jobs)) = of.iter().find(|(_, jobs)| **jobs > own + 1)
                && waits.complaints.len() < ENOUGH
            {
                waits.complaints.push(format!(
                    "while job number {number} of tenant {tenant} waited, {jobs} jobs of tenant {other} and {own} of its own were admitted"
                ));
            }
        }
        waits
    }
}
