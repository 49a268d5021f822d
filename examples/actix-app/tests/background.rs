//! The jobs, run on one connection inside a test transaction. There is no worker.

use actix_app::background::{Assign, CloseStale};
use actix_app::schema::{agents, tickets};
use actix_app::{NewTicket, open_ticket};
use diesel::connection::SimpleConnection as _;
use diesel::prelude::*;
use diesel_jobs::testing::{drain, perform, tick};

fn assigned(conn: &mut PgConnection) -> Vec<(String, i64)> {
    agents::table.order(agents::name).select((agents::name, agents::assigned)).load(conn).unwrap()
}

#[diesel_jobs::test]
fn tickets_go_to_the_agent_who_has_got_the_fewest(conn: &mut PgConnection) {
    for subject in ["no light", "no water", "no heat"] {
        open_ticket(conn, &NewTicket { email: "eve@example.org".into(), subject: subject.into() }).unwrap();
    }
    drain(conn).run().unwrap().assert_completed::<Assign>(3);
    assert_eq!(assigned(conn), [("Ada".to_owned(), 2), ("Grace".to_owned(), 1)]);
    let of_nobody = tickets::table.filter(tickets::agent_id.is_null()).count();
    assert_eq!(of_nobody.get_result::<i64>(conn).unwrap(), 0);
}

#[diesel_jobs::test]
fn a_ticket_that_is_gone_counts_for_nobody(conn: &mut PgConnection) {
    perform(Assign { ticket_id: 7 }).on(conn).unwrap_err();
    assert_eq!(assigned(conn), [("Ada".to_owned(), 0), ("Grace".to_owned(), 0)]);
}

#[diesel_jobs::test]
fn tickets_are_closed_after_two_weeks(conn: &mut PgConnection) {
    conn.batch_execute(
        "insert into tickets (email, subject, opened_at, closed_at) values
            ('eve@example.org', 'stale', '2026-03-01 11:59:59Z', null),
            ('eve@example.org', 'fresh', '2026-03-01 12:00:00Z', null),
            ('eve@example.org', 'solved', '2026-03-01 11:00:00Z', '2026-03-02 00:00:00Z')",
    )
    .unwrap();
    tick(CloseStale, "2026-03-15 12:00").on(conn).unwrap();
    let open: Vec<String> =
        tickets::table.filter(tickets::closed_at.is_null()).select(tickets::subject).load(conn).unwrap();
    assert_eq!(open, ["fresh"]);
}
