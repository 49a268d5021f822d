//! Metrics that are read while the benchmark runs.

use std::sync::Arc;
use std::time::Duration;

use diesel_jobs::metrics::MetricsText;

/// How often they are rendered. A server of metrics asks every 15 to 60 seconds.
const EVERY: Duration = Duration::from_secs(1);

/// Metrics that are rendered each second until the process ends.
pub(crate) fn metrics() -> Arc<MetricsText> {
    let metrics = Arc::new(MetricsText::new());
    let rendered = Arc::clone(&metrics);
    std::thread::spawn(move || {
        loop {
            std::thread::sleep(EVERY);
            std::hint::black_box(rendered.render());
        }
    });
    metrics
}
