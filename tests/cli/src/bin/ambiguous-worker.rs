//! A worker with two jobs that have the same earlier name.

use jobs::job;

#[job(aliases("greet"))]
async fn hail() {}

#[job(aliases("greet"))]
async fn welcome() {}

jobs::worker!();
