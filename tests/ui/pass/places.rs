//! Where a job may be written.
#![deny(warnings)]
#![allow(missing_docs, clippy::unwrap_used)]

use diesel_jobs::enqueue::IntoNewJob;
use diesel_jobs::handler::Registered;

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

/// The `State` of a web framework, imported by its name, takes precedence over that of the prelude.
pub mod web {
    use diesel_jobs::prelude::*;

    use self::extract::State;

    mod extract {
        pub(crate) struct State<T>(pub(crate) T);
    }

    #[job(kind = "counted")]
    fn count(diesel_jobs::State(counter): diesel_jobs::State<u64>) {
        let _ = counter;
    }

    pub(crate) fn handle() -> (u64, &'static str) {
        let State(request): State<u64> = State(7);
        (request, Count::KIND)
    }
}

fn main() {
    #[diesel_jobs::job(name = "Local", kind = "local")]
    fn inside_a_function() {}
    inside_a_function();

    assert_eq!(mails::send(), "inner");
    assert_eq!(web::handle(), (7, "counted"));
    assert_eq!(First::new("x").into_new_job().unwrap().priority, -3);
    assert_eq!(Second::new(vec![1]).into_new_job().unwrap().queue, "post");
    assert_eq!(Local::REGISTRATION.kind, "local");
}
