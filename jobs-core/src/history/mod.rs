//! The history of the work: what workers did in each minute, for each queue and kind. This code is pure.
//!
//! A worker counts in memory ([`WorkCounts`]) and writes one row per minute, queue and kind ([`HistoryRow`]). Rows of
//! several workers and minutes are joined by adding their numbers ([`fold`]). [`Point`]s and [`KindRate`]s are made
//! from such sums.

mod bins;
mod counts;
mod fold;
mod series;

pub use bins::{BINS, Bins};
pub use counts::{HistoryBatch, HistoryRow, OTHER, WorkCounts};
pub use fold::{FOLDS, Fold, fold};
pub use series::{
    KindRate, Point, Quantiles, QueueRates, SeriesBounds, Summary, WorkFilter, kind_rates, points, queue_rates,
};
