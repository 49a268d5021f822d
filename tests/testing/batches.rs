//! A handler that takes batches is called with one job at a time, on each type of connection.

use diesel_jobs::prelude::*;
use diesel_jobs::testing::Ended::{Completed, Discarded};
use diesel_jobs::testing::{drain, perform};

use crate::database;

#[derive(serde::Serialize, serde::Deserialize, Job)]
#[job(batch(max = 10))]
struct Count {
    number: i64,
}

impl HandleBatch for Count {
    async fn handle(jobs: Vec<Self>, ctx: BatchContext) -> BatchHandled {
        assert_eq!((jobs.len(), ctx.jobs().len()), (1, 1));
        let number = jobs[0].number;
        if number < 0 { Ok(vec![Err(JobError::msg("negative").fatal())]) } else { ctx.complete_all() }
    }
}

macro_rules! on {
    ($module:ident, $database:pat = $create:expr, $open:expr, [$($wait:tt)*]) => {
        #[tokio::test]
        async fn $module() {
            let $database = $create;
            let mut conn = $open;
            for number in [1, -1, 2] {
                Count { number }.enqueue(&mut conn)$($wait)*.unwrap();
            }
            let report = drain(&mut conn).run()$($wait)*.unwrap();
            report.assert_ran::<Count>([Completed, Discarded, Completed]);
            assert_eq!(perform(Count { number: 3 }).on(&mut conn)$($wait)*.unwrap(), Outcome::Complete);
            assert!(perform(Count { number: -3 }).on(&mut conn)$($wait)*.unwrap_err().is_fatal());
        }
    };
}

on!(pg, database = database::Database::create(), database.pg(), []);
on!(pg_async, database = database::Database::create(), database.pg_async().await, [.await]);
on!(sqlite, _ = (), database::sqlite(), []);
on!(sqlite_async, _ = (), database::sqlite_async().await, [.await]);
