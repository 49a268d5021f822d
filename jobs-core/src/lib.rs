//! The core of `diesel-jobs`: the plain types (job, lease, outcome, ..), the storage interface and the worker. It
//! contains no database code. Depend on the crate `diesel-jobs`, which re-exports what applications need.

mod acting;
mod any_connection;
mod argument;
mod argument_traits;
mod asked;
mod attempts;
mod backtraces;
mod batch;
mod batch_handler;
mod by_hand;
mod canonical;
mod context;
mod crash_point;
mod cron_problem;
mod cron_ticks;
mod decision;
mod declared_rules;
mod declared_schedule;
mod discarded;
mod enqueued;
mod error;
mod every;
mod expiry;
mod failure;
mod finite;
pub mod flags;
mod handler;
mod handler_threads;
pub mod health_checks;
pub mod history;
mod indented_json;
pub mod installation;
mod instant;
mod job;
mod job_builder;
mod job_event;
mod job_id;
mod job_options;
mod jobs_of_rows;
mod json_depth;
mod key_problem;
mod keyed_job;
mod layer;
mod lease;
mod maintenance;
mod merged;
pub mod metrics;
mod missing_state;
mod nearest;
mod new_job;
mod next_ticks;
mod of_process;
mod outcome;
mod output;
mod overrides;
mod panics;
mod progress;
mod queue_pattern;
mod record;
mod recorder;
mod registry;
mod retry;
mod returned;
mod rules;
mod schedule;
pub mod secrets;
mod selection;
mod sending;
#[doc(hidden)]
pub mod shell;
mod state;
mod state_parameter;
mod states;
mod stats;
mod stop;
pub mod storage;
mod storage_error;
mod telemetry;
#[cfg(not(feature = "testing"))]
mod testing;
#[cfg(feature = "testing")]
#[doc(hidden)]
pub mod testing;
mod trace_context;
mod undecodable;
mod unique;
mod unknown_queue;
mod wait;
mod worker;

pub use acting::record_actions;
pub use any_connection::AnyConnection;
pub use asked::Asked;
pub use attempts::{AttemptEnd, AttemptRecord};
pub use batch::{BatchContext, BatchHandled, HandleBatch, HandleBatchIn, HandleBlockingBatchIn};
pub use batch_handler::{BatchAnswer, BatchCall, BatchHandler, FailedBatch, TransactionalBatch, of_one_job};
pub use context::JobContext;
pub use discarded::{DiscardRule, Discarded, InvalidDiscardRule, OnDiscarded};
pub use enqueued::Enqueued;
pub use error::{IntoJobError, JobError, NoRuntime, ResultExt};
pub use failure::{Failure, FailureKind, MAX_FAILURE_BYTES, fingerprint};
pub use handler::{
    Handle, HandleBlocking, HandleBlockingIn, HandleIn, Handler, LoadedHandler, Registered, Registration, RowHandler,
};
pub use indented_json::indented_json;
pub use installation::{Freeze, Installation};
pub use instant::IntoInstant;
pub use job::{Job, without_arguments};
pub use job_builder::JobBuilder;
pub use job_event::{Events, EventsSince, Happened, JobEvent};
pub use job_id::JobId;
pub use job_options::{JobOptions, Retain};
pub use key_problem::KeyProblem;
pub use layer::{Layer, Layers};
pub use lease::{ClaimedJob, Lease, WorkerId};
pub use merged::{Merged, merged};
pub use metrics::{Gauge, MetricsText};
pub use new_job::{IntoNewJob, InvalidJob, MAX_ARGS_BYTES, NewJob, RunAt};
pub use outcome::{Attempt, Finish, Handled, Keep, Kept, Outcome, Retention, Transition, decide};
pub use output::Output;
pub use progress::{Progress, ProgressReport};
pub use record::{AttemptError, DeadLetter, DeadLetters, JobEnd, JobRecord, WorkerRecord};
pub use recorder::{AttemptOutcome, Event, Recorder, RescueOutcome};
pub use registry::{Registry, RegistryError};
pub use retry::Backoff;
pub use returned::{IntoHandled, JobOutput, ReturnsOutput};
pub use rules::{
    Bucket, JobRule, KindRule, Limit, MOST_AT_ONCE, MOST_RULES, OnDiscard, OnFull, OwnRule, Rate, Rule, RuleProblem,
    Rules, Sequence, StoredRules, period_text,
};
pub use schedule::{CatchUp, Due, InvalidSchedule, Schedule, ScheduleSpec};
pub use selection::{Selected, Selection, Tagged};
pub use sending::record_enqueues;
pub use state::{JobState, UnknownState};
pub use states::{State, States, TypeKey};
pub use stats::{
    COUNTED_DEPTH, Counted, CountedTo, DeadRows, Depth, HeldCounts, KindStats, LeasedJob, LongQueues, QueueCount,
    QueueStats, Sample, Stats,
};
pub use storage::{Explained, Reason, Why};
pub use storage_error::StorageError;
pub use testing::TestContext;
pub use trace_context::{TraceLink, TraceRelation, Traceparent, set_trace_link, set_trace_source};
pub use unique::{OnConflict, Replace, Unique, UniqueKey, UniqueProblem, Until};
pub use unknown_queue::UnknownQueue;
pub use wait::{WaitError, wait};
pub use worker::{HealthCheck, QueueLoad, UntilEmpty, Worker, WorkerBuilder, WorkerError, WorkerHandle, WorkerStats};

#[doc(hidden)]
pub mod __private {
    pub use crate::acting::acted;
    pub use crate::argument::{Argument, NoArguments, handle};
    pub use crate::argument_traits::{CloneArgument, DebugArgument, PartialEqArgument, Redacted};
    pub use crate::batch::{handle_batch, handle_batch_in, handle_blocking_batch_in};
    pub use crate::crash_point::{crash_point, crash_soon};
    pub use crate::expiry::{EXPIRED, expired, is_expired};
    pub use crate::finite::refuse_infinite;
    pub use crate::handler_threads::{HandlerCall, NoResult, spawn as spawn_handler};
    pub use crate::jobs_of_rows::JobsOfRows;
    pub use crate::schedule::every;
    pub use crate::sending::{sending, sending_all, sending_each, sent_each};
    pub use crate::state_parameter::StateParameter;
    pub use futures_util::future::BoxFuture;
    pub use inventory;

    /// The candidate that a misspelt name probably stands for.
    pub fn nearest<'a>(written: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
        crate::nearest::nearest(written, candidates)
    }
}
