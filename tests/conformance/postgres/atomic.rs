//! A bulk and the notification of idle workers are one transaction.

use super::Postgres;
use crate::bench::*;
use crate::fixture::{Fixture, run};

#[test]
fn a_bulk_whose_notification_fails_is_not_there() {
    run::<Postgres, _>(async |f: Postgres| {
        for (name, mut client) in f.clients().await {
            // Only the notification reads this table.
            client.execute("alter table jobs.worker rename to hidden").await.unwrap();
            assert!(client.enqueue_all(vec![job(); 3]).await.is_err(), "{name}");
            client.execute("alter table jobs.hidden rename to worker").await.unwrap();
            assert_eq!(client.number("select count(*) as number from jobs.ready").await, 0, "{name}");
            assert_eq!(client.enqueue_all(vec![job(); 3]).await.unwrap().len(), 3, "{name}");
            client.execute("delete from jobs.ready").await.unwrap();
        }
    });
}
