//! The points of the overview's charts. The history gets new rows once a minute, and to add up a week of it takes longer than a page may.
//! So points that are younger than a minute are shown as they are. They are read anew in the background.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use diesel_jobs_core::history::{Point, WorkFilter};
use diesel_jobs_core::storage::{Operator, StorageResult};

/// Points that are older are read anew, in the background.
const FRESH: Duration = Duration::from_secs(15);
/// Points that are older are not shown.
const OLD: Duration = Duration::from_secs(60);

/// Range and step.
type Key = (Duration, Duration);

struct Entry {
    points: Arc<Vec<Point>>,
    at: Instant,
    /// Whether they are read anew.
    is_refreshing: bool,
}

/// The newest points of each range.
#[derive(Clone, Default)]
pub(crate) struct Charts(Arc<Mutex<HashMap<Key, Entry>>>);

impl Charts {
    fn with<T>(&self, work: impl FnOnce(&mut HashMap<Key, Entry>) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    async fn read(&self, operator: &Arc<dyn Operator>, key: Key) -> StorageResult<Arc<Vec<Point>>> {
        let read = operator.series(key.0, key.1, &WorkFilter::default()).await;
        self.with(|entries| match read {
            Ok(points) => {
                let points = Arc::new(points);
                entries.insert(key, Entry { points: Arc::clone(&points), at: Instant::now(), is_refreshing: false });
                Ok(points)
            }
            Err(problem) => {
                // The next page tries again.
                entries.remove(&key);
                Err(problem)
            }
        })
    }

    /// The points of this range and step.
    pub(crate) async fn points(
        &self,
        operator: &Arc<dyn Operator>,
        range: Duration,
        step: Duration,
    ) -> StorageResult<Arc<Vec<Point>>> {
        let key = (range, step);
        let (known, refreshes) = self.with(|entries| {
            let Some(entry) = entries.get_mut(&key).filter(|entry| entry.at.elapsed() < OLD) else {
                return (None, false);
            };
            let refreshes = entry.at.elapsed() >= FRESH && !entry.is_refreshing;
            entry.is_refreshing |= refreshes;
            (Some(Arc::clone(&entry.points)), refreshes)
        });
        let Some(points) = known else { return self.read(operator, key).await };
        if refreshes {
            let (charts, operator) = (self.clone(), Arc::clone(operator));
            tokio::spawn(async move {
                if let Err(error) = charts.read(&operator, key).await {
                    tracing::warn!(%error, "the charts of the dashboard could not be read");
                }
            });
        }
        Ok(points)
    }
}
