//! The systems, one per file: how each is set up, enqueued to and worked, as its documentation tells.

pub(crate) mod apalis;
pub(crate) mod awa;
pub(crate) mod graphile;
pub(crate) mod ours;

use crate::name::Name;
use crate::system::System;
use apalis::Apalis;
use awa::Awa;
use graphile::Graphile;
use ours::Ours;

/// The system of this name.
pub(crate) fn of(name: Name) -> &'static dyn System {
    match name {
        Name::Jobs => &Ours { keep: true },
        Name::JobsRetainNone => &Ours { keep: false },
        Name::Graphile => &Graphile,
        Name::Apalis => &Apalis,
        Name::Awa => &Awa,
    }
}
