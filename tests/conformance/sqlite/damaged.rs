//! `doctor` on a file with a damaged page.

use std::os::unix::fs::FileExt as _;

use diesel::connection::SimpleConnection as _;
use diesel::prelude::*;
use diesel::sql_types::BigInt;

use super::Sqlite;
use crate::bench::{enqueue_all, job};
use crate::examining::{none, one};
use crate::fixture::{Fixture as _, Port as _, run};

#[derive(QueryableByName)]
struct Place {
    #[diesel(sql_type = BigInt)]
    page: i64,
    #[diesel(sql_type = BigInt)]
    size: i64,
}

#[test]
fn a_damaged_page_is_named_and_gone_after_a_restore() {
    run::<Sqlite, _>(async |f: Sqlite| {
        enqueue_all(&f, vec![job(); 100]).await;
        none(f.database(), "integrity").await;
        let mut conn = f.connect();
        conn.batch_execute("pragma wal_checkpoint(truncate)").unwrap();
        let place: Place = diesel::sql_query(
            "select rootpage as page, page_size as size from sqlite_master, pragma_page_size
             where type = 'index' and tbl_name = 'jobs_job' and sql is not null order by name limit 1",
        )
        .get_result(&mut conn)
        .unwrap();
        drop(conn);
        let file = std::fs::File::options().read(true).write(true).open(&f.file).unwrap();
        let mut page = vec![0; place.size as usize];
        let at = (place.page - 1) as u64 * place.size as u64;
        file.read_exact_at(&mut page, at).unwrap();
        file.write_all_at(&vec![0x55; page.len()], at).unwrap();
        // Connections that are open have the page in their caches.
        let found = one(&f.again().await, "integrity").await;
        assert!(found.repair.starts_with("restore a backup"), "{found:?}");
        file.write_all_at(&page, at).unwrap();
        none(&f.again().await, "integrity").await;
    });
}
