//! The generated code, as one snapshot for each form of output.

use proc_macro2::TokenStream;
use quote::quote;

use crate::expand;

fn pretty(tokens: TokenStream) -> String {
    match syn::parse2(tokens.clone()) {
        Ok(file) => prettyplease::unparse(&file),
        Err(error) => panic!("the output is not Rust: {error}\n{tokens}"),
    }
}

#[test]
fn an_async_job_with_every_kind_of_parameter() {
    let options = quote! {
        queue = "mail", priority = -5, max_attempts = 10, timeout = "30s", backoff = "exponential(2s, 1h)", retain = "7d"
    };
    let item = quote! {
        /// Sends the welcome mail.
        #[cfg(feature = "mail")]
        #[tracing::instrument]
        pub(crate) async fn send_welcome(
            user_id: i64,
            mut template: String,
            subject: &str,
            r#type: &[u8],
            State(mailer): State<Mailer>,
            ctx: &JobContext,
        ) -> Result<(), MailError> {
            mailer.send(user_id, template).await
        }
    };
    insta::assert_snapshot!(pretty(expand::job(options, item)));
}

#[test]
fn a_blocking_job_inside_the_transaction() {
    let item = quote! {
        fn transfer(conn: &mut SqliteConnection, cents: i64) -> Result<(), TransferError> {}
    };
    insta::assert_snapshot!(pretty(expand::job(quote!(backoff = my::backoff), item)));
}

#[test]
fn a_job_with_rows_and_versions() {
    let item = quote! {
        async fn remind(
            user: Ref<User>,
            #[arg(lock, gone = "retry")] Ref(order): Ref<Order>,
            coupon: Option<Ref<Coupon>>,
            conn: &mut AsyncPgConnection,
        ) {
        }
    };
    insta::assert_snapshot!(pretty(expand::job(quote!(version = 3, upgrade = [from_v1, from_v2]), item)));
}

#[test]
fn a_job_with_rows_and_no_connection() {
    let item = quote! {
        fn remind(user: Ref<User>, text: &str, #[arg(gone = "none")] coupon: Option<Ref<Coupon>>, ctx: &JobContext) {}
    };
    insta::assert_snapshot!(pretty(expand::job(quote!(), item)));
}

#[test]
fn a_scheduled_job_without_arguments() {
    let item = quote! {
        #[deprecated]
        pub async fn nightly_report(ctx: JobContext) {}
    };
    let options =
        quote!(name = "Nightly", kind = "report", cron = "0 0 2 * * *", timezone = "Europe/Paris", catch_up = "all");
    insta::assert_snapshot!(pretty(expand::job(options, item)));
}

#[test]
fn the_stub_of_a_refused_function() {
    let item = quote! {
        pub fn send(to: String, (a, b): (i64, i64)) {}
    };
    insta::assert_snapshot!(pretty(expand::job(quote!(quue = "mail"), item)));
}

#[test]
fn a_derived_job() {
    let item = quote! {
        #[job(queue = "mail", backoff = "fixed(5s)", retain = "none")]
        struct SendWelcome { user_id: i64 }
    };
    insta::assert_snapshot!(pretty(expand::derive(item)));
}

#[test]
fn a_derived_job_without_fields() {
    insta::assert_snapshot!(pretty(expand::derive(quote!(
        struct Cleanup;
    ))));
}

#[test]
fn a_job_with_a_limit() {
    let item = quote! {
        async fn charge(account: i64, text: &str) {}
    };
    let made =
        pretty(expand::job(quote!(version = 2, upgrade = [], concurrency(limit = 5, by(account, text))), item.clone()));
    assert!(flat(&made).contains(r#"Concurrency::new("charge",5u32).by(&["account","text"])"#), "{made}");
    let made = pretty(expand::job(quote!(concurrency("stripe", limit = 1)), item));
    assert!(flat(&made).contains(r#"Concurrency::new("stripe",1u32).by(&[])"#), "{made}");
    let derived = quote! {
        #[job(concurrency(limit = 2, by(account)))]
        struct Charge { account: i64 }
    };
    let made = pretty(expand::derive(derived));
    assert!(flat(&made).contains(r#"Concurrency::new("charge",2u32).by(&["account"])"#), "{made}");
}

#[test]
fn a_job_of_a_sequence() {
    let item = quote! {
        async fn ship(order: i64, #[arg(secret)] card: String) {}
    };
    for (options, parts) in [
        (quote!(sequence(by(order))), [r#"in_sequence("ship","#, "OnDiscard::Halt", r#".by(&["order"])"#]),
        (quote!(sequence("orders", on_discard = "skip")), [r#"in_sequence("orders","#, "OnDiscard::Skip", ".by(&[])"]),
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
        (quote!(sequence(by(order)), concurrency(limit = 2)), "not both"),
        (quote!(cron = "0 0 2 * * *", sequence()), "cannot be in a sequence"),
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
            r#"Concurrency::rate("call",100u32,::core::time::Duration::from_millis(60000u64)"#,
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
        (quote!(rate(limit = 5, per = 60)), "takes a duration"),
        (quote!(rate(limit = 10001, per = "1s")), "at most 10000 starts in a second"),
        (quote!(rate(limit = 5, per = "1s", per = "1m")), "given twice"),
        (quote!(rate(limit = 5, limit = 6, per = "1m")), "given twice"),
        (quote!(rate(limit = 5, per = "1s", by(acount))), "did you mean `account`?"),
        (quote!(rate(limit = 5, per = "1s", by(card))), "is secret"),
        (quote!(rate(limit = 5, per = "1s", by())), "names arguments"),
        (quote!(rate("", limit = 5, per = "1s")), "must not be empty"),
        (quote!(rate(limit = 5, per = "1s", every = "1s")), "not a part of `rate`"),
        (quote!(rate(limit = 5, per = "1s"), concurrency(limit = 2)), "not several"),
        (quote!(rate(limit = 5, per = "1s"), sequence(by(account))), "not several"),
    ] {
        let made = expand::job(options.clone(), item.clone()).to_string();
        assert!(made.contains("compile_error") && made.contains(problem), "{options}: {made}");
    }
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
        (quote!(concurrency(limit = 5, on_full = "wait")), "not a part of `concurrency`"),
        (quote!(concurrency(limit = 5), concurrency(limit = 6)), "given twice"),
        (quote!(unique = true), "takes a list"),
        (quote!(unique(by(acount))), "did you mean `account`?"),
        (quote!(unique(by(card))), "is secret"),
        (quote!(unique(by("account"))), "names arguments"),
        (quote!(unique(by(account), by(account))), "given twice"),
        (quote!(unique(until = "ended")), "\\\"finished\\\" or"),
        (quote!(unique(within = "0s")), "longer than 0"),
        (quote!(unique(within = 5)), "takes a duration"),
        (quote!(unique(limit = 5)), "not a part of `unique`"),
        (quote!(unique(on_conflict = "drop")), "`on_conflict` is"),
        (quote!(unique(on_conflict = "replace()")), "`on_conflict` is"),
        (quote!(unique(on_conflict = "replace(queue)")), "`on_conflict` is"),
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
