//! What the macro copies from the function to its struct.

use diesel_jobs::worker::Registry;
use diesel_jobs::{Job, job};

mod inner {
    use diesel_jobs::job;

    #[job]
    pub(crate) fn seen(number: i64) {
        let _ = number;
    }

    #[job]
    #[cfg(any())]
    fn compiled_out(number: of::a::type_that::is_not::there) {}

    #[cfg(any())]
    #[job]
    fn compiled_out_above() {}

    #[job]
    #[cfg_attr(all(), inline, cfg(any()))]
    fn compiled_out_by_an_attribute(number: of::a::type_that::is_not::there) {}

    #[job(kind = "compiled_in")]
    #[cfg(not(target_os = "none"))]
    #[cfg_attr(not(target_os = "none"), inline)]
    pub(super) fn compiled_in() {}
}

#[test]
fn visibility_is_the_functions() {
    assert_eq!(inner::Seen { number: 3 }.number, inner::Seen::new(3).number);
    inner::seen(3);
}

#[test]
fn cfg_leaves_out_the_job_with_its_function() {
    let linked = Registry::linked();
    inner::compiled_in();
    assert_eq!(inner::CompiledIn::KIND, "compiled_in");
    assert!(linked.get("compiled_in").is_some());
    for kind in ["compiled_out", "compiled_out_by_an_attribute", "compiled_out_above"] {
        assert!(linked.get(kind).is_none(), "{kind}");
    }
}

#[job]
#[cfg_attr(all(), deprecated = "use the other", inline)]
fn old(number: i64) {
    let _ = number;
}

#[test]
#[expect(
    deprecated,
    reason = "the struct of a deprecated function is deprecated too; the macro's own use of it is silent"
)]
fn deprecation_is_carried_over() {
    let _ = Old { number: 3 };
}

#[must_use]
#[inline]
#[job]
fn other_attributes_stay_on_the_function() -> diesel_jobs::Outcome {
    diesel_jobs::Outcome::Complete
}

#[test]
fn a_job_is_made_once_from_a_function_with_attributes() {
    assert_eq!(OtherAttributesStayOnTheFunction::KIND, "other_attributes_stay_on_the_function");
    assert_eq!(other_attributes_stay_on_the_function(), diesel_jobs::Outcome::Complete);
}
