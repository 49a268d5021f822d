//! Opens a ticket: one transaction inserts the ticket and enqueues its job.

use chrono::{DateTime, Utc};
use diesel::prelude::*;
use diesel_jobs::prelude::*;
use serde::{Deserialize, Serialize};

use crate::background::Assign;
use crate::error::DeskError;
use crate::schema::{agents, tickets};

/// How many open tickets one address may have.
pub const MOST_OPEN: i64 = 3;

/// The request of a customer.
#[derive(Clone, Debug, Deserialize, Insertable)]
#[diesel(table_name = tickets)]
pub struct NewTicket {
    /// The address to answer to.
    pub email: String,
    /// What it is about.
    pub subject: String,
}

/// The fields of a ticket that everybody may see.
#[derive(Debug, Serialize, HasQuery)]
#[diesel(table_name = tickets, base_query = tickets::table.left_join(agents::table), check_for_backend(diesel::pg::Pg))]
pub struct Ticket {
    id: i64,
    subject: String,
    #[diesel(select_expression = agents::name.nullable())]
    agent: Option<String>,
    opened_at: DateTime<Utc>,
    closed_at: Option<DateTime<Utc>>,
}

/// Opens a ticket, and returns its id. The ticket and its job are committed together or not at all: an error rolls both
/// back.
pub fn open_ticket(conn: &mut PgConnection, ticket: &NewTicket) -> Result<i64, DeskError> {
    if !ticket.email.contains('@') || ticket.subject.trim().is_empty() {
        return Err(DeskError::Incomplete);
    }
    conn.transaction(|conn| {
        let id = insert(conn, ticket)?;
        let open = tickets::table.filter(tickets::email.eq(&ticket.email).and(tickets::closed_at.is_null()));
        if open.count().get_result::<i64>(conn)? > MOST_OPEN {
            return Err(DeskError::TooMany);
        }
        Ok(id)
    })
}

fn insert(conn: &mut PgConnection, ticket: &NewTicket) -> QueryResult<i64> {
    let ticket_id = diesel::insert_into(tickets::table).values(ticket).returning(tickets::id).get_result(conn)?;
    Assign { ticket_id }.enqueue(conn)?;
    Ok(ticket_id)
}
