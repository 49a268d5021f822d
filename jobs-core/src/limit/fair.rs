//! Tenants: those that wait for the same key of a limit take turns.

use serde::Serialize;
use serde_json::Value;

use super::{Concurrency, JobLimit, Limit, LimitProblem, key, value_of};

impl Concurrency {
    /// Lets the tenants of a key take turns. The values of these arguments are the tenant of a job. `fair(by(tenant_id))` in `#[job]` does this.
    pub const fn fair_by(mut self, arguments: &'static [&'static str]) -> Self {
        self.fair = arguments;
        self
    }
}

impl Limit {
    /// Lets the tenants of the key take turns, and sets that of this job. So a tenant with many waiting jobs does not delay the others.
    /// Several calls make a tenant of several values. A value is a text, a whole number, a boolean or null. Default: no tenants.
    ///
    /// ```
    /// # use diesel_jobs_core::Limit;
    /// let (tenant_id, limit) = (7, Limit::new("reports", 10));
    /// # let _ =
    /// limit.fair_by(tenant_id)
    /// # ;
    /// ```
    pub fn fair_by(mut self, value: impl Serialize) -> Self {
        self.tenant.push(value_of(value));
        self
    }
}

impl JobLimit {
    /// The same limit for a job of the tenant with these values.
    pub(super) fn of_tenant(self, values: &[Value]) -> Result<Self, LimitProblem> {
        Ok(Self { fair: Some(key(values)?), ..self })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde::{Deserialize, Serialize};

    use super::*;
    use crate::{IntoNewJob as _, Job as _, JobBuilder, JobOptions, OnFull, Rate, RunAt, Sequence, flags};

    #[derive(Serialize, Deserialize)]
    struct Report {
        tenant: i64,
        region: Option<String>,
    }

    impl crate::Job for Report {
        const KIND: &'static str = "report";
        const OPTIONS: JobOptions =
            JobOptions::new().concurrency(Concurrency::new("report", 10).fair_by(&["tenant", "region"]));
    }

    fn report() -> Report {
        Report { tenant: 7, region: None }
    }

    fn of(job: impl Into<JobBuilder>) -> JobLimit {
        *job.into().into_new_job().unwrap().limit.unwrap()
    }

    #[test]
    fn the_tenant_is_stored_with_the_job() {
        let limit = of(report());
        assert_eq!(limit.to_json(), r#"{"limit":"report","key":"[]","most":10,"fair":"[7,null]"}"#);
        assert_eq!(limit.flags(), flags::LIMITED | flags::FAIR);
        let stored: JobLimit = serde_json::from_str(&limit.to_json()).unwrap();
        assert_eq!(stored.checked(), Ok(limit));
        let own = of(report().concurrency(Limit::new("own", 1).key("x").fair_by(8).fair_by("eu")));
        assert_eq!(own.to_json(), r#"{"limit":"own","key":"[\"x\"]","most":1,"fair":"[8,\"eu\"]"}"#);
        let plain = of(report().concurrency(Limit::new("own", 1)));
        assert_eq!(
            (plain.fair.as_deref(), plain.flags()),
            (None, flags::LIMITED),
            "its own limit replaces that of the kind"
        );
        // The jobs of a schedule have no arguments. They are one tenant.
        let scheduled =
            crate::storage::ScheduledJob::default().at("report", &<Report as crate::Job>::OPTIONS, RunAt::Now);
        assert_eq!(scheduled.limit.unwrap().fair.as_deref(), Some("[]"));
    }

    #[test]
    fn what_cannot_be_a_tenant_is_refused() {
        let refused = |job: JobBuilder| job.into_new_job().unwrap_err().to_string();
        let value = refused(report().concurrency(Limit::new("a", 1).fair_by(1.5)));
        assert_eq!(value, "job `report`: a key is made of texts, whole numbers, booleans and nulls, not of 1.5");
        let second = Duration::from_secs(1);
        for several in [
            report().rate(Rate::new("calls", 1, second)),
            report().sequence(Sequence::new("orders")),
            report().concurrency(Limit::new("a", 1).fair_by(1)).concurrency(Limit::new("b", 1)),
        ] {
            let problem = refused(several);
            assert!(problem.starts_with("job `report`: `fair` is for jobs with one `concurrency`"), "{problem}");
        }
        let full = refused(report().concurrency(Limit::new("a", 1).fair_by(1).on_full(OnFull::Discard)));
        assert!(full.starts_with("job `report`: `fair` is for jobs that wait"), "{full}");
        for (field, problem) in [
            (r#""sequence":"halt""#, LimitProblem::FairOfSeveral),
            (r#""rate":{"per":1000000,"burst":1}"#, LimitProblem::FairOfSeveral),
            (r#""lane":"x""#, LimitProblem::Nested),
            (r#""on_full":"discard""#, LimitProblem::FairOnFull),
        ] {
            let stored = format!(r#"{{"limit":"a","key":"[]","most":1,"fair":"[7]",{field}}}"#);
            assert_eq!(serde_json::from_str::<JobLimit>(&stored).unwrap().checked(), Err(problem), "{field}");
        }
        for tenant in [String::new(), "x".repeat(201)] {
            let stored = JobLimit { fair: Some(tenant), ..of(report()) };
            assert_eq!(stored.checked(), Err(LimitProblem::StoredKey));
        }
    }
}
