//! Metrics: their names, and a recorder that keeps them and writes the text format of Prometheus. It depends on no
//! crate for metrics. Programs that have one use an adapter instead.

mod by_job;
mod cluster;
mod gauges;
mod histogram;
pub mod names;
mod page;
mod series;
mod text;

pub use by_job::ByJob;
pub use gauges::Gauge;
pub use names::{Metric, MetricType};
pub use text::MetricsText;
