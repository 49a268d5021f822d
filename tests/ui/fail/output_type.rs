use diesel_jobs::enqueue::EnqueueConnection;
use diesel_jobs::{JobId, job};

#[derive(serde::Serialize)]
struct Written;

#[job]
fn write() -> Result<Written, std::io::Error> {
    Ok(Written)
}

fn read<C: EnqueueConnection<M>, M>(conn: &mut C) {
    let _ = Write::output(conn, JobId(1));
}

fn main() {}
