//! The points of the overview's charts. The history gets new rows once a minute. Adding up a week takes longer than a
//! page may wait. So points that are younger than a minute are shown as they are. They are read again in the
//! background.

use std::sync::Arc;
use std::time::Duration;

use diesel_jobs_core::history::{Point, WorkFilter};
use diesel_jobs_core::storage::{Operator, StorageResult};

use crate::background::Background;

/// Points that are older are read again, in the background.
const FRESH: Duration = Duration::from_secs(15);
/// Points that are older are not shown.
const OLD: Duration = Duration::from_secs(60);

/// The newest points of each range and step.
pub(crate) type Charts = Background<(Duration, Duration), Arc<Vec<Point>>>;

impl Charts {
    /// The points of this range and step.
    pub(crate) async fn points(
        &self,
        operator: &Arc<dyn Operator>,
        range: Duration,
        step: Duration,
    ) -> StorageResult<Arc<Vec<Point>>> {
        let operator = Arc::clone(operator);
        let read = async move { operator.series(range, step, &WorkFilter::default()).await.map(Arc::new) };
        self.recent((range, step), (FRESH, OLD), read).await
    }
}
