//! The end of a job whose finish the database refuses, for several lease times.

use super::Writer;
use crate::error::{Failure, FailureKind};
use crate::outcome::{Finish, Keep, Transition};
use crate::storage::PassOn;
use crate::storage_error::StorageError;
use crate::telemetry;
use crate::worker::report::Report;

impl Writer {
    /// Discards the job, because the database refuses its finish. Otherwise the job would run repeatedly. Returns
    /// whether the database accepted this.
    pub(super) async fn discard(&mut self, Report { ctx, ran, .. }: &Report, problem: &StorageError) -> bool {
        let failure = Failure::new(FailureKind::Error, &format!("its outcome could not be stored: {problem}"));
        let keep = match self.shared.registry.get(ctx.kind()) {
            Some(registration) => self.shared.live.kept(registration).discarded,
            None => Keep::For(self.shared.settings.retention.discarded),
        };
        let finish = [Finish::new(ctx.claimed(), Transition::Discard { failure, keep })];
        let Ok(finished) = self.shared.storage.finish(&finish, PassOn::Nothing).await else { return false };
        if !self.still_valid(&finish, &finished.moved).await.is_empty() {
            return false;
        }
        telemetry::refused("finish", problem);
        self.refused_in_a_row = 0;
        if finished.moved.is_empty() {
            self.shared.lost(ctx, "discard");
        } else {
            self.shared.done(ctx, &finish[0].transition, *ran);
            self.shared.leases.end([&ctx.lease()]);
        }
        true
    }
}
