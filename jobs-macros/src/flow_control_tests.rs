//! What the options of flow control are expanded to, and which of them are refused.

use quote::quote;

use crate::expand;
use crate::tests::pretty;

#[test]
fn a_job_with_a_limit() {
    let item = quote! {
        async fn charge(account: i64, text: &str) {}
    };
    let made =
        pretty(expand::job(quote!(version = 2, upgrade = [], concurrency(limit = 5, by(account, text))), item.clone()));
    assert!(flat(&made).contains(r#"KindRule::concurrency("charge",5u32).by(&["account","text"])"#), "{made}");
    let made = pretty(expand::job(quote!(concurrency("stripe", limit = 1)), item));
    assert!(flat(&made).contains(r#"KindRule::concurrency("stripe",1u32).by(&[])"#), "{made}");
    let derived = quote! {
        #[job(concurrency(limit = 2, by(account)))]
        struct Charge { account: i64 }
    };
    let made = pretty(expand::derive(derived));
    assert!(flat(&made).contains(r#"KindRule::concurrency("charge",2u32).by(&["account"])"#), "{made}");
}

#[test]
fn a_job_of_a_sequence() {
    let item = quote! {
        async fn ship(order: i64, #[arg(secret)] card: String) {}
    };
    for (options, parts) in [
        (quote!(sequence(by(order))), [r#"KindRule::sequence("ship","#, "OnDiscard::Halt", r#".by(&["order"])"#]),
        (
            quote!(sequence("orders", on_discard = "skip")),
            [r#"KindRule::sequence("orders","#, "OnDiscard::Skip", ".by(&[])"],
        ),
    ] {
        let made = pretty(expand::job(options, item.clone()));
        assert!(parts.iter().all(|part| flat(&made).contains(part)), "{made}");
    }
    for (options, problem) in [
        (quote!(sequence = 5), "takes a list"),
        (quote!(sequence(limit = 2)), "not a part of `sequence`"),
        (quote!(sequence(by(ordr))), "did you mean `order`?"),
        (quote!(sequence(by(card))), "is secret"),
        (quote!(sequence(by(order), by(order))), "given twice"),
        (quote!(sequence(on_discard = "stop")), "takes \\\"halt\\\""),
        (quote!(sequence(on_discard = "halt", on_discard = "skip")), "given twice"),
        (quote!(sequence(by(order)), concurrency(limit = 2)), "two rules of this job have no name"),
        (quote!(cron = "0 0 2 * * *", sequence()), "cannot be in a sequence"),
    ] {
        let made = expand::job(options.clone(), item.clone()).to_string();
        assert!(made.contains("compile_error") && made.contains(problem), "{options}: {made}");
    }
}

#[test]
fn a_job_with_several_limits() {
    let item = quote! {
        async fn charge(account: i64, order: i64) {}
    };
    let options = quote!(
        sequence(by(order)),
        concurrency("account", limit = 2, by(account)),
        concurrency("stripe", limit = 10),
        rate("calls", limit = 5, per = "1s")
    );
    let made = flat(&pretty(expand::job(options, item.clone())));
    let start = made.find(".rules(&[").unwrap_or_else(|| panic!("{made}"));
    let places = [
        r#"KindRule::sequence("charge","#,
        r#"concurrency("account",2u32"#,
        r#"concurrency("stripe",10u32"#,
        r#"rate("calls",5u32"#,
    ]
    .map(|part| made[start..].find(part).unwrap_or_else(|| panic!("{part}: {made}")));
    assert!(places.is_sorted(), "{made}");
    for (options, problem) in [
        (quote!(concurrency("a", limit = 2), concurrency("a", limit = 2)), "have the name `a`"),
        (quote!(concurrency(limit = 2), concurrency(limit = 3, by(order))), "begin one with a name"),
        (quote!(concurrency("a", limit = 2), concurrency("b", limit = 2, by(ordr))), "did you mean `order`?"),
        (quote!(sequence("a"), sequence("b")), "`sequence` is given twice"),
        (
            quote!(
                concurrency("a", limit = 1),
                concurrency("b", limit = 1),
                concurrency("c", limit = 1),
                rate("d", limit = 1, per = "1s"),
                rate("e", limit = 1, per = "1s")
            ),
            "a job has at most 4 rules",
        ),
    ] {
        let made = expand::job(options.clone(), item.clone()).to_string();
        assert!(made.contains("compile_error") && made.contains(problem), "{options}: {made}");
    }
}

#[test]
fn a_job_with_a_rate() {
    let item = quote! {
        async fn call(account: i64, #[arg(secret)] card: String) {}
    };
    for (options, expected) in [
        (
            quote!(rate(limit = 100, per = "1m")),
            r#"KindRule::rate("call",100u32,::core::time::Duration::from_millis(60000u64)"#,
        ),
        (quote!(rate("api", limit = 5, per = "1s", burst = 2, by(account))), r#".burst(2u32).by(&["account"])"#),
    ] {
        let made = flat(&pretty(expand::job(options, item.clone())));
        assert!(made.replace(",)", ")").contains(&expected.replace(",)", ")")), "{made}");
    }
    for (options, problem) in [
        (quote!(rate = 5), "takes a list"),
        (quote!(rate(limit = 5)), "has no `per`"),
        (quote!(rate(per = "1s")), "has no `limit`"),
        (quote!(rate(limit = 0, per = "1s")), "from 1 to 1000000"),
        (quote!(rate(limit = 1000001, per = "1d")), "from 1 to 1000000"),
        (quote!(rate(limit = 5, per = "1s", burst = 0)), "from 1 to 10000"),
        (quote!(rate(limit = 5, per = "1s", burst = 10001)), "from 1 to 10000"),
        (quote!(rate(limit = 5, per = "0s")), "longer than 0"),
        (quote!(rate(limit = 5, per = "367d")), "at most 366 days"),
        (quote!(rate(limit = 1, per = "366d", burst = 101)), "within a hundred years"),
        (quote!(rate(limit = 5, per = 60)), "takes a duration"),
        (quote!(rate(limit = 10001, per = "1s")), "at most 10000 starts in a second"),
        (quote!(rate(limit = 5, per = "1s", per = "1m")), "given twice"),
        (quote!(rate(limit = 5, limit = 6, per = "1m")), "given twice"),
        (quote!(rate(limit = 5, per = "1s", by(acount))), "did you mean `account`?"),
        (quote!(rate(limit = 5, per = "1s", by(card))), "is secret"),
        (quote!(rate(limit = 5, per = "1s", by())), "names arguments"),
        (quote!(rate("", limit = 5, per = "1s")), "must not be empty"),
        (quote!(rate(limit = 5, per = "1s", every = "1s")), "not a part of `rate`"),
        (quote!(rate(limit = 5, per = "1s"), concurrency(limit = 2)), "two rules of this job have no name"),
        (quote!(rate("a", limit = 5, per = "1s"), concurrency("a", limit = 2)), "have the name `a`"),
    ] {
        let made = expand::job(options.clone(), item.clone()).to_string();
        assert!(made.contains("compile_error") && made.contains(problem), "{options}: {made}");
    }
}

#[test]
fn a_job_with_tenants() {
    let item = quote! {
        async fn report(tenant: i64, region: String, #[arg(secret)] card: String) {}
    };
    let options = quote!(fair(by(tenant, region)), concurrency("reports", limit = 10, by(region)));
    let made = flat(&pretty(expand::job(options, item.clone())));
    let expected = r#"KindRule::concurrency("reports",10u32).by(&["region"]).fair_by(&["tenant","region"])"#;
    assert!(made.replace(",)", ")").contains(expected), "{made}");
    for (options, problem) in [
        (quote!(fair(by(tenant))), "`fair` needs a limit"),
        (quote!(concurrency(limit = 0), fair(by(tenant))), "from 1 to 10000"),
        (quote!(concurrency(limit = 2), fair = 5), "takes a list"),
        (quote!(concurrency(limit = 2), fair()), "has no `by`"),
        (quote!(concurrency(limit = 2), fair(by())), "not a part of `fair`"),
        (quote!(concurrency(limit = 2), fair("reports", by(tenant))), "not a part of `fair`"),
        (quote!(concurrency(limit = 2), fair(by(tenant), by(region))), "`by` is given twice"),
        (quote!(concurrency(limit = 2), fair(by(tenant)), fair(by(region))), "`fair` is given twice"),
        (quote!(concurrency(limit = 2), fair(by(tenent))), "did you mean `tenant`?"),
        (quote!(concurrency(limit = 2), fair(by(card))), "is secret"),
        (
            quote!(concurrency("a", limit = 2), rate("b", limit = 2, per = "1s"), fair(by(tenant))),
            "leave out `rate` or `fair`",
        ),
        (quote!(rate(limit = 2, per = "1s"), fair(by(tenant))), "leave out `rate` or `fair`"),
        (quote!(sequence(by(tenant)), fair(by(tenant))), "leave out `sequence` or `fair`"),
        (quote!(concurrency("a", limit = 2), concurrency("b", limit = 2), fair(by(tenant))), "this job has several"),
        (
            quote!(unique(by(tenant), on_conflict = "run_again"), concurrency(limit = 2), fair(by(tenant))),
            "makes a sequence",
        ),
        (quote!(concurrency(limit = 2, on_full = "discard"), fair(by(tenant))), "leave out `on_full` or `fair`"),
    ] {
        let made = expand::job(options.clone(), item.clone()).to_string();
        assert!(made.contains("compile_error") && made.contains(problem), "{options}: {made}");
        assert_eq!(made.matches("compile_error").count(), 1, "{options}: {made}");
    }
}

#[test]
fn a_job_that_expires() {
    let expanded = expand::job(
        quote!(expires = "10m"),
        quote!(
            fn call() {}
        ),
    )
    .to_string();
    assert!(expanded.contains("expires (:: core :: time :: Duration :: from_millis (600000u64))"), "{expanded}");
}

#[test]
fn a_job_that_does_not_wait() {
    let item = quote! {
        async fn charge(account: i64) {}
    };
    for (options, part) in [
        (
            quote!(concurrency(limit = 5, by(account), on_full = "discard")),
            r#".by(&["account"]).on_full(::diesel_jobs::__private::OnFull::Discard)"#,
        ),
        (
            quote!(concurrency(limit = 5, on_full = "cancel_oldest")),
            ".by(&[]).on_full(::diesel_jobs::__private::OnFull::CancelOldest)",
        ),
        (
            quote!(rate(limit = 5, per = "1s", on_full = "discard")),
            ".by(&[]).on_full(::diesel_jobs::__private::OnFull::Discard)",
        ),
    ] {
        let made = flat(&pretty(expand::job(options, item.clone())));
        assert!(made.contains(part), "{part}: {made}");
    }
    let waits = flat(&pretty(expand::job(quote!(concurrency(limit = 5, on_full = "wait")), item)));
    assert!(!waits.contains("on_full"), "{waits}");
}

#[test]
fn a_unique_job() {
    let item = quote! {
        async fn index(doc_id: i64, text: &str) {}
    };
    for (options, expected) in [
        (quote!(unique()), "Unique::new().by(&[]))"),
        (quote!(unique(by(doc_id))), r#"Unique::new().by(&["doc_id"]))"#),
        (
            quote!(unique(by(doc_id), within = "5m", until = "started", on_conflict = "replace(args, priority)")),
            r#"by(&["doc_id"]).within(::core::time::Duration::from_millis(300000u64)).until(::diesel_jobs::__private::Until::Started)"#,
        ),
        (quote!(unique(on_conflict = "replace(args, priority)")), "Replace::new().args().priority()"),
        (quote!(unique(on_conflict = "error")), "OnConflict::Error"),
        (quote!(unique(by(doc_id), on_conflict = "run_again")), "OnConflict::RunAgain"),
        (quote!(debounce(quiet = "5s", max = "1m", by(doc_id))), r#"from_millis(60000u64)).by(&["doc_id"]))"#),
    ] {
        let made = flat(&pretty(expand::job(options, item.clone())));
        assert!(made.replace(',', "").contains(&expected.replace(',', "")), "{expected}: {made}");
    }
}

fn flat(text: &str) -> String {
    text.split_whitespace().collect()
}

#[test]
fn limits_that_cannot_be_are_refused() {
    let item = quote! {
        async fn charge(account: i64, #[arg(secret)] card: String) {}
    };
    for (options, problem) in [
        (quote!(concurrency(limit = 0)), "from 1 to 10000"),
        (quote!(concurrency(limit = 10001)), "from 1 to 10000"),
        (quote!(concurrency(limit = "5")), "from 1 to 10000"),
        (quote!(concurrency(by(account))), "has no `limit`"),
        (quote!(concurrency()), "has no `limit`"),
        (quote!(concurrency = 5), "takes a list"),
        (quote!(concurrency(limit = 5, by(acount))), "did you mean `account`?"),
        (quote!(concurrency(limit = 5, by(zzz))), "the arguments are `account`, `card`"),
        (quote!(concurrency(limit = 5, by(card))), "is secret"),
        (quote!(concurrency(limit = 5, by())), "names arguments"),
        (quote!(concurrency(limit = 5, by("account"))), "names arguments"),
        (quote!(concurrency(limit = 5, limit = 6)), "given twice"),
        (quote!(concurrency(limit = 5, by(account), by(account))), "given twice"),
        (quote!(concurrency("", limit = 5)), "must not be empty"),
        (quote!(concurrency(limit = 5, on_fool = "wait")), "not a part of `concurrency`"),
        (quote!(concurrency(limit = 5, on_full = "drop")), "`on_full` takes"),
        (quote!(concurrency(limit = 5, on_full = wait)), "`on_full` takes"),
        (quote!(concurrency(limit = 5, on_full = "wait", on_full = "wait")), "given twice"),
        (quote!(rate(limit = 5, per = "1s", on_full = "drop")), "`on_full` of a rate takes"),
        (quote!(rate(limit = 5, per = "1s", on_full = "cancel_oldest")), "frees no token"),
        (quote!(rate(limit = 5, per = "1s", on_full = "wait", on_full = "wait")), "given twice"),
        (quote!(sequence(on_full = "discard")), "not a part of `sequence`"),
        (
            quote!(concurrency(limit = 5, on_full = "discard"), rate("x", limit = 5, per = "1s")),
            "is for a job with one limit",
        ),
        (
            quote!(concurrency(limit = 5, on_full = "discard"), sequence("x", by(account))),
            "is for a job with one limit",
        ),
        (quote!(concurrency(limit = 5), concurrency(limit = 6)), "begin one with a name"),
        (quote!(concurrency(2, by(account))), "only a name has no `=`; write `concurrency(limit = 5)`"),
        (quote!(rate(100, per = "1m")), "only a name has no `=`; write `rate(limit = 100"),
        (quote!(sequence(2)), "only a name has no `=`; write `sequence(by(order_id))`"),
        (quote!(concurrency), "write `concurrency(limit = 5)`"),
        (quote!(unique), "write `unique(by(user_id))`, or `unique()`"),
        (quote!(debounce), "write `debounce(quiet = "),
        (quote!(unique = true), "takes a list"),
        (quote!(unique(by(acount))), "did you mean `account`?"),
        (quote!(unique(by(card))), "is secret"),
        (quote!(unique()), "`card` is secret"),
        (quote!(unique(by("account"))), "names arguments"),
        (quote!(unique(by(account), by(account))), "given twice"),
        (quote!(unique(until = "ended")), "\\\"finished\\\" or"),
        (quote!(unique(within = "0s")), "longer than 0"),
        (quote!(unique(within = 5)), "takes a duration"),
        (quote!(unique(limit = 5)), "not a part of `unique`"),
        (quote!(unique(on_conflict = "drop")), "`on_conflict` is"),
        (quote!(unique(on_conflict = "replace()")), "`on_conflict` is"),
        (quote!(unique(on_conflict = "replace(queue)")), "`on_conflict` is"),
        (quote!(unique(until = "started", on_conflict = "run_again")), "leave `until = "),
        (quote!(unique(on_conflict = "run_again"), concurrency(limit = 2)), "makes a sequence"),
        (quote!(sequence(by(account)), unique(on_conflict = "run_again")), "makes a sequence"),
        (quote!(unique(), debounce(quiet = "1s", max = "2s")), "either"),
        (quote!(debounce(quiet = "5s")), "needs `quiet` and `max`"),
        (quote!(debounce(quiet = "5s", max = "4s")), "must not be shorter"),
        (quote!(debounce(quiet = "0s", max = "4s")), "longer than 0"),
        (quote!(debounce(quiet = "1s", max = "4s", within = "5s")), "not a part of `debounce`"),
    ] {
        let made = expand::job(options.clone(), item.clone()).to_string();
        assert!(made.contains("compile_error") && made.contains(problem), "{options}: {made}");
    }
    let scheduled = expand::job(
        quote!(cron = "0 0 2 * * *", concurrency(limit = 1, by(day))),
        quote!(
            async fn nightly() {}
        ),
    );
    assert!(scheduled.to_string().contains("no arguments"), "{scheduled}");
    let renamed = expand::derive(quote! {
        #[job(concurrency(limit = 2, by(account)))]
        struct Charge { #[serde(rename = "a")] account: i64 }
    });
    assert!(renamed.to_string().contains("not an argument"), "{renamed}");
}
