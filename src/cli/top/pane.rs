//! The tables of the screen.

/// The tables of the screen, from top to bottom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pane {
    Queues,
    Kinds,
    Workers,
    Jobs,
}

pub(super) const PANES: [Pane; 4] = [Pane::Queues, Pane::Kinds, Pane::Workers, Pane::Jobs];
