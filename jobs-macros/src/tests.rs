//! The generated code, as one snapshot for each form of output.

use proc_macro2::TokenStream;
use quote::quote;

use crate::expand;

pub(super) fn pretty(tokens: TokenStream) -> String {
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
fn a_renamed_job_with_versions() {
    let item = quote! {
        fn greet(user_id: i64) {}
    };
    let options = quote! {
        aliases("send_welcome", "hail"), version = 2, upgrade = from_v1, concurrency(limit = 1), rate("mail", limit = 5, per = "1s")
    };
    insta::assert_snapshot!(pretty(expand::job(options, item)));
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
