//! Determines which statements a session runs, and to which of them a reply belongs. It is pure: it depends only on the
//! messages.
//!
//! Every simple query and every sync closes a *unit*. The server commits there, and answers with one `ReadyForQuery`.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use super::frames::Frame;

/// The statements of one unit, as SQL.
pub(crate) type Unit = Vec<Arc<str>>;

/// The state of one session.
#[derive(Debug)]
pub(crate) struct Script {
    prepared: HashMap<Vec<u8>, Arc<str>>,
    portals: HashMap<Vec<u8>, Arc<str>>,
    open: Unit,
    /// Sent units without a reply. The first one is the start of the session.
    unanswered: VecDeque<Unit>,
}

impl Default for Script {
    fn default() -> Self {
        Self {
            prepared: HashMap::new(),
            portals: HashMap::new(),
            open: Unit::new(),
            unanswered: VecDeque::from([Unit::new()]),
        }
    }
}

impl Script {
    /// Processes a message of the client. Returns the unit that it closed.
    pub(crate) fn sent(&mut self, frame: &Frame) -> Option<Unit> {
        let mut words = frame.words();
        let mut word = || words.next().unwrap_or_default().to_vec();
        match frame.kind() {
            b'P' => {
                let name = word();
                self.prepared.insert(name, String::from_utf8_lossy(&word()).into());
            }
            b'B' => {
                let portal = word();
                if let Some(sql) = self.prepared.get(&word()) {
                    self.portals.insert(portal, sql.clone());
                }
            }
            b'E' => self.open.extend(self.portals.get(&word()).cloned()),
            b'Q' => self.open.push(frame.text().into()),
            _ => {}
        }
        matches!(frame.kind(), b'Q' | b'S' | b'F').then(|| {
            let unit = std::mem::take(&mut self.open);
            self.unanswered.push_back(unit.clone());
            unit
        })
    }

    /// The statements to which the current reply belongs.
    pub(crate) fn answering(&self) -> &[Arc<str>] {
        self.unanswered.front().map_or(&[], Vec::as_slice)
    }

    /// Removes the first unit: the server has sent its `ReadyForQuery`.
    pub(crate) fn answered(&mut self) {
        self.unanswered.pop_front();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unit(script: &mut Script, frames: &[(u8, &[u8])]) -> Vec<String> {
        let closed = frames.iter().filter_map(|(kind, body)| script.sent(&Frame::new(*kind, body))).collect::<Vec<_>>();
        assert!(closed.len() <= 1);
        closed.into_iter().flatten().map(|sql| sql.to_string()).collect()
    }

    #[test]
    fn replies_belong_to_statements_in_their_order() {
        let mut script = Script::default();
        script.answered();
        assert_eq!(unit(&mut script, &[(b'Q', b"BEGIN\0")]), ["BEGIN"]);
        assert!(
            unit(&mut script, &[(b'P', b"s1\0insert\0\0\0"), (b'D', b"Ss1\0"), (b'S', b"")]).is_empty(),
            "prepared only"
        );
        assert_eq!(unit(&mut script, &[(b'B', b"\0s1\0\0\0"), (b'E', b"\0\0\0\0\0"), (b'S', b"")]), ["insert"]);
        assert_eq!(unit(&mut script, &[(b'Q', b"COMMIT\0")]), ["COMMIT"]);
        let mut order = Vec::new();
        for _ in 0..4 {
            order.push(script.answering().iter().map(ToString::to_string).collect::<Vec<_>>().join(","));
            script.answered();
        }
        assert_eq!(order, ["BEGIN", "", "insert", "COMMIT"]);
        assert!(script.answering().is_empty());
    }
}
