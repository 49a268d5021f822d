//! The jobs, run on one connection inside a test transaction. There is no worker.

use actix_app::background::{Assign, CloseStale};
use actix_app::schema::{agents, tickets};
use actix_app::{NewTicket, open_ticket};
use chrono::{DateTime, Utc};
use diesel::connection::SimpleConnection as _;
use diesel::prelude::*;
use diesel_jobs::testing::{drain, perform};

use crate::database::{connection, database};

fn assigned(conn: &mut PgConnection) -> Vec<(String, i64)> {
    agents::table.order(agents::name).select((agents::name, agents::assigned)).load(conn).unwrap()
}

#[test]
fn tickets_go_to_the_agent_who_has_got_the_fewest() {
    let database = database();
    let mut conn = connection(&database);
    for subject in ["no light", "no water", "no heat"] {
        open_ticket(&mut conn, &NewTicket { email: "eve@example.org".into(), subject: subject.into() }).unwrap();
    }
    drain(&mut conn).run().unwrap().assert_completed::<Assign>(3);
    assert_eq!(assigned(&mut conn), [("Ada".to_owned(), 2), ("Grace".to_owned(), 1)]);
    let of_nobody = tickets::table.filter(tickets::agent_id.is_null()).count();
    assert_eq!(of_nobody.get_result::<i64>(&mut conn).unwrap(), 0);
}

#[test]
fn a_ticket_that_is_gone_counts_for_nobody() {
    let database = database();
    let mut conn = connection(&database);
    perform(Assign { ticket_id: 7 }).on(&mut conn).unwrap_err();
    assert_eq!(assigned(&mut conn), [("Ada".to_owned(), 0), ("Grace".to_owned(), 0)]);
}

#[test]
fn tickets_are_closed_after_two_weeks() {
    let database = database();
    let mut conn = connection(&database);
    conn.batch_execute(
        "insert into tickets (email, subject, opened_at, closed_at) values
            ('eve@example.org', 'stale', '2026-03-01 11:59:59Z', null),
            ('eve@example.org', 'fresh', '2026-03-01 12:00:00Z', null),
            ('eve@example.org', 'solved', '2026-03-01 11:00:00Z', '2026-03-02 00:00:00Z')",
    )
    .unwrap();
    let tick: DateTime<Utc> = "2026-03-15T12:00:00Z".parse().unwrap();
    perform(CloseStale).run_at(tick).on(&mut conn).unwrap();
    let closed: Vec<String> =
        tickets::table.filter(tickets::closed_at.eq(tick)).select(tickets::subject).load(&mut conn).unwrap();
    assert_eq!(closed, ["stale"]);
}
