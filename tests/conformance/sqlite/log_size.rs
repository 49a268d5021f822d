//! The write-ahead log after a burst of writes.

use super::Sqlite;
use crate::bench::*;
use crate::client::Client;
use crate::examining::{none, one};
use crate::fixture::{Port as _, run};

const MIB: u64 = 1 << 20;

impl Sqlite {
    fn log_size(&self) -> u64 {
        std::fs::metadata(format!("{}-wal", self.file)).unwrap().len()
    }

    /// One transaction of the application writes more than the log may keep.
    async fn burst(&self) {
        let mut application = self.connect();
        let burst = "begin; create table if not exists burst (bytes blob); insert into burst values (zeroblob(80000000)); commit";
        application.execute(burst).await.unwrap();
        assert!(self.log_size() > 70 * MIB, "{}", self.log_size());
    }
}

#[test]
fn the_log_shrinks_after_a_burst() {
    run::<Sqlite, _>(async |f: Sqlite| {
        f.burst().await;
        worker(f.database()).await;
        assert_eq!(f.log_size(), 64 * MIB);
        none(f.database(), "wal_size").await;
    });
}

#[test]
fn the_log_shrinks_after_its_last_reader_has_ended() {
    run::<Sqlite, _>(async |f: Sqlite| {
        let mut reader = f.connect();
        reader.execute("begin; select count(*) from jobs_job").await.unwrap();
        f.burst().await;
        worker(f.database()).await;
        assert!(f.log_size() > 70 * MIB, "{}", f.log_size());
        one(f.database(), "wal_size").await;
        reader.execute("commit").await.unwrap();
        // The first commit after this copies the log into the file, and the second one begins it anew.
        for _ in 0..2 {
            worker(f.database()).await;
        }
        assert_eq!(f.log_size(), 64 * MIB);
        none(f.database(), "wal_size").await;
    });
}
