//! The delete of held jobs by an operator: the parts of the statement around the ids and around the condition for known
//! flags. Rows that another session has locked are passed over, and the command tries again.

pub(super) const FROM_HELD: &str = "delete from jobs.held where ctid = any(array(
        select found.ctid from unnest(";

pub(super) const KNOWN: &str = ") as wanted(id) cross join lateral (
            select ctid from jobs.held where id = wanted.id and ";

pub(super) const UNLOCKED: &str = " for update skip locked
        ) found
    ))";
