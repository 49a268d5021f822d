//! What a job with a tenant waits for besides its limit, in words.

use super::super::{HeldBy, MOST_AHEAD, MOST_TENANTS};

/// With which tenants that of the job takes turns, and what comes before it.
pub(super) fn turns(tenant: &str, HeldBy { ahead, other_tenants, .. }: &HeldBy) -> String {
    let others = match other_tenants.unwrap_or_default() {
        0 => "no other tenant waits".to_owned(),
        1 => "it takes turns with 1 other tenant".to_owned(),
        others if others > MOST_TENANTS => format!("it takes turns with more than {MOST_TENANTS} other tenants"),
        others => format!("it takes turns with {others} other tenants"),
    };
    let line = match ahead {
        0 => "none of its jobs comes before this one".to_owned(),
        1 => "1 of its jobs comes before this one".to_owned(),
        _ if *ahead > MOST_AHEAD => format!("more than {MOST_AHEAD} of its jobs come before this one"),
        _ => format!("{ahead} of its jobs come before this one"),
    };
    format!("; the job's tenant is {tenant}: {others}, and {line}")
}
