//! The rules, one per guarantee.

mod attempts;
mod effects;
mod fencing;
mod leases;
mod lost;
mod order;
mod phantom;
mod rest;

use super::{Run, Violation};

type Rule = fn(&Run<'_>) -> Vec<Violation>;

pub(super) const ALL: &[Rule] = &[
    lost::check,
    phantom::check,
    effects::check,
    fencing::check,
    leases::check,
    attempts::check,
    order::check,
    rest::check,
];
