use diesel_jobs::job;

#[job]
const fn constant() {}

#[job]
unsafe fn dangerous() {}

#[job]
extern "C" fn foreign() {}

fn main() {}
