//! Where a job may be written.
#![deny(warnings)]
#![allow(missing_docs, clippy::unwrap_used)]

use diesel_jobs::{IntoNewJob, Registered};

pub mod mails {
    pub(crate) mod inner {
        #[diesel_jobs::job(kind = "inner")]
        pub(in crate::mails) fn send(to: String) {
            let _ = to;
        }
    }

    pub(crate) fn send() -> &'static str {
        inner::send("x".into());
        <inner::Send as diesel_jobs::Job>::KIND
    }
}

macro_rules! jobs_of {
    ($($name:ident: $ty:ty = $queue:literal, $priority:expr;)*) => {$(
        #[diesel_jobs::job(queue = $queue, priority = $priority)]
        fn $name(argument: $ty) {
            let _ = argument;
        }
    )*};
}

jobs_of! {
    first: String = "mail", -3;
    second: Vec<i64> = "post", 5;
}

fn main() {
    #[diesel_jobs::job(name = "Local", kind = "local")]
    fn inside_a_function() {}
    inside_a_function();

    assert_eq!(mails::send(), "inner");
    assert_eq!(First::new("x").into_new_job().unwrap().priority, -3);
    assert_eq!(Second::new(vec![1]).into_new_job().unwrap().queue, "post");
    assert_eq!(Local::REGISTRATION.kind, "local");
}
