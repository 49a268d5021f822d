//! `assign`: gives a ticket to an agent.

use diesel::prelude::*;
use diesel_jobs::prelude::*;

use crate::schema::{agents, tickets};

/// Gives the ticket to the agent who has got the fewest. The handler takes the connection, so it is transactional: the
/// agent's count, the ticket's agent and the job's completion are committed together. A plain `fn` runs on a thread
/// that may block, as Diesel's own connection does.
#[job(queue = "desk", max_attempts = 10)]
pub fn assign(conn: &mut PgConnection, ticket_id: i64) -> QueryResult<()> {
    let fewest = agents::table.order((agents::assigned, agents::id)).select(agents::id);
    let agent: i64 = fewest.for_update().first(conn)?;
    diesel::update(agents::table.find(agent)).set(agents::assigned.eq(agents::assigned + 1)).execute(conn)?;
    // Returning the id makes a missing ticket an error.
    let ticket = diesel::update(tickets::table.find(ticket_id)).set(tickets::agent_id.eq(agent));
    ticket.returning(tickets::id).get_result::<i64>(conn)?;
    Ok(())
}
