//! The systems, one per file: set-up, enqueueing and worker, as the documentation of each describes them.

pub(crate) mod apalis;
pub(crate) mod awa;
pub(crate) mod graphile;
pub(crate) mod ours;
pub(crate) mod river;

use crate::name::Name;
use crate::system::System;
use apalis::Apalis;
use awa::Awa;
use graphile::Graphile;
use ours::Ours;
use river::River;

/// Returns the system with this name.
pub(crate) fn of(name: Name) -> &'static dyn System {
    match name {
        Name::Jobs => &Ours { keep: true },
        Name::JobsRetainNone => &Ours { keep: false },
        Name::Graphile => &Graphile,
        Name::Apalis => &Apalis,
        Name::Awa => &Awa,
        Name::River => &River,
    }
}
