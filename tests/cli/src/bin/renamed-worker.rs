//! A worker of the fixture's next version, in which `greet` is called `hail`.

use jobs::job;

/// Succeeds.
#[job(queue = "mail", aliases("greet"))]
pub async fn hail(name: String) {
    drop(name);
}

jobs::worker!();
