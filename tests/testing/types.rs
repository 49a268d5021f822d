//! Types of other crates: times of `time` and `jiff`, errors of `eyre`.

use std::time::{Duration, SystemTime};

use diesel_jobs::assert_enqueued;
use diesel_jobs::prelude::*;
use diesel_jobs::testing::drain;

use crate::database;

#[job]
fn later() {}

#[job(max_attempts = 2)]
async fn fails_with_eyre(ctx: &JobContext) -> Result<(), eyre::Report> {
    let cause = std::io::Error::other("the disk is full");
    if ctx.attempt() == 1 {
        Err(eyre::Report::new(cause).wrap_err("cannot write"))
    } else {
        Err(JobError::msg("never").fatal().into())
    }
}

#[test]
fn a_job_is_scheduled_by_the_time_of_any_crate() {
    let mut conn = database::sqlite();
    let hour = Duration::from_secs(3600);
    let at = SystemTime::now() + hour;
    Later.run_at(at).enqueue(&mut conn).unwrap();
    Later.run_at(time::OffsetDateTime::from(at)).enqueue(&mut conn).unwrap();
    Later.run_at(jiff::Timestamp::try_from(at).unwrap()).enqueue(&mut conn).unwrap();
    Later.run_at(chrono::Local::now() + hour).enqueue(&mut conn).unwrap();
    assert_enqueued!(conn, Later, run_in = 3590..=3601, count = 4);
}

#[test]
fn an_error_of_eyre_is_stored_with_its_causes_and_keeps_what_it_says_of_the_next_attempt() {
    let mut conn = database::sqlite();
    FailsWithEyre.enqueue(&mut conn).unwrap();
    let report = drain(&mut conn).skip_time().run().unwrap();
    assert_eq!(report.ran[0].error.as_deref(), Some("cannot write: the disk is full"), "{report}");
    assert_eq!(report.ran[1].error.as_deref(), Some("never"), "{report}");
    report.assert_discarded::<FailsWithEyre>(1);
}
