//! Calls that are given up after a time limit.

/// The message of a call that is given up, and its time limit. What the call does before it hangs takes its time on a
/// busy machine. So the limit is doubled until the message says this, up to minutes.
macro_rules! given_up {
    ($says:expr, $limit:ident => $call:expr) => {{
        let mut $limit = std::time::Duration::from_millis(500);
        loop {
            let problem: String = $call;
            if problem.contains($says) || $limit.as_secs() > 120 {
                break (problem, $limit);
            }
            $limit *= 2;
        }
    }};
}
