//! The code of the guide's page that compares the testing kit with Oban.Testing and rivertest. Tests below compare the
//! page with this file, and the numbers of lines in its table with its code.

// begin set-up
use chrono::{NaiveDate, TimeDelta};
use diesel::connection::SimpleConnection as _;
use diesel::prelude::*;
use diesel_jobs::prelude::*;
use diesel_jobs::testing::Ended::{Completed, Retried};
use diesel_jobs::testing::{drain, perform, tick};
use diesel_jobs::{EnqueueError, assert_enqueued, refute_enqueued};

diesel::table! {
    orders { id -> BigInt, state -> Text }
}

diesel::table! {
    reports (day) { day -> Date }
}

fn place_order(conn: &mut SqliteConnection, id: i64, cents: i32) -> Result<(), EnqueueError> {
    diesel::insert_into(orders::table).values((orders::id.eq(id), orders::state.eq("placed"))).execute(conn)?;
    if cents > 0 {
        Capture { order_id: id }.enqueue(conn)?;
    }
    Ok(())
}

#[job]
fn capture(order_id: i64, conn: &mut SqliteConnection) -> QueryResult<()> {
    diesel::update(orders::table.find(order_id)).set(orders::state.eq("paid")).execute(conn).map(drop)
}

#[job(queue = "mail")]
fn mail_invoice(order_id: i64, ctx: &JobContext) -> Result<(), JobError> {
    if ctx.attempt() == 1 { Err(JobError::msg(format!("no mail server for {order_id}"))) } else { Ok(()) }
}

#[job(cron = "0 2 * * *")]
fn daily_report(ctx: &JobContext, conn: &mut SqliteConnection) -> QueryResult<()> {
    let day = (ctx.run_at() - TimeDelta::days(1)).date_naive();
    diesel::insert_into(reports::table).values(reports::day.eq(day)).execute(conn).map(drop)
}

/// An application would have these tables in its migrations.
fn tables(conn: &mut SqliteConnection) -> QueryResult<()> {
    conn.batch_execute("create table orders (id bigint, state text); create table reports (day date)")
}

fn state(conn: &mut SqliteConnection, id: i64) -> String {
    orders::table.find(id).select(orders::state).first(conn).unwrap()
}

fn reported(conn: &mut SqliteConnection) -> NaiveDate {
    reports::table.select(reports::day).first(conn).unwrap()
}
// end set-up

// begin enqueues
#[diesel_jobs::test(setup = tables)]
fn an_order_is_charged(conn: &mut SqliteConnection) {
    place_order(conn, 7, 990).unwrap();
    assert_enqueued!(conn, Capture { order_id: 7 });
}
// end enqueues

// begin enqueues not
#[diesel_jobs::test(setup = tables)]
fn a_free_order_is_not_charged(conn: &mut SqliteConnection) {
    place_order(conn, 7, 0).unwrap();
    refute_enqueued!(conn, Capture { .. });
}
// end enqueues not

// begin effect
#[diesel_jobs::test(setup = tables)]
fn a_captured_payment_marks_the_order_as_paid(conn: &mut SqliteConnection) {
    place_order(conn, 7, 990).unwrap();
    perform(Capture { order_id: 7 }).on(conn).unwrap();
    assert_eq!(state(conn, 7), "paid");
}
// end effect

// begin retry
#[diesel_jobs::test(setup = tables)]
fn a_failed_mail_is_sent_again(conn: &mut SqliteConnection) {
    MailInvoice { order_id: 7 }.enqueue(conn).unwrap();
    let report = drain(conn).skip_time().run().unwrap();
    report.assert_ran::<MailInvoice>([Retried, Completed]);
}
// end retry

// begin cron
#[diesel_jobs::test(setup = tables)]
fn the_report_is_about_the_day_before(conn: &mut SqliteConnection) {
    tick(DailyReport, "2026-03-01 02:00").on(conn).unwrap();
    assert_eq!(reported(conn).to_string(), "2026-02-28");
}
// end cron

const PAGE: &str = include_str!("../../docs/guide/testing-compared.md");

#[test]
fn the_comparison_shows_this_code() {
    for name in ["set-up", "enqueues", "enqueues not", "effect", "retry", "cron"] {
        let part = crate::guide::part(include_str!("compared.rs"), name);
        assert!(PAGE.contains(&format!("```rust\n{part}\n```")), "docs/guide/testing-compared.md: {name}");
    }
}

/// The lines between the opening and the closing line of a test, blank ones not counted.
fn lines(test: &str) -> usize {
    let lines: Vec<&str> = test.lines().filter(|line| !line.trim().is_empty()).collect();
    let opening = lines.iter().position(|line| line.ends_with('{') || line.ends_with(" do")).unwrap();
    lines.len() - opening - 2
}

/// The table's rows: what is tested, and the lines of each test.
#[test]
fn the_comparison_counts_its_lines() {
    let mut sums = [0; 3];
    for section in PAGE.split("\n## ").filter(|section| section.contains("```rust\n#[diesel_jobs::test")) {
        let title = section.lines().next().unwrap();
        let counts = ["rust", "elixir", "go"].map(|language| {
            let (_, code) = section.split_once(&format!("```{language}\n")).unwrap();
            lines(code.split_once("\n```").unwrap().0)
        });
        let [ours, oban, river] = counts;
        let row = format!("| {title} | {ours} | {oban} | {river} |\n");
        assert!(PAGE.contains(&row), "docs/guide/testing-compared.md: {row}");
        sums.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
    }
    let [ours, oban, river] = sums;
    assert!(PAGE.contains(&format!("| all five | {ours} | {oban} | {river} |\n")), "{sums:?}");
}
