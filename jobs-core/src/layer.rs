//! Layers: code that runs before and after the handlers of a worker.

use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;

use crate::context::JobContext;
use crate::error::JobError;
use crate::outcome::{Handled, Outcome};
use crate::panics;
use crate::states::{States, TypeKey};
use crate::telemetry;

/// Code that is called before and after each attempt of a worker, for jobs of every kind. Add a layer with
/// `WorkerBuilder::layer`.
///
/// [`before`](Self::before) is called in the order in which the layers were added. [`after`](Self::after) or
/// [`error`](Self::error) is called in the reverse order, and only for layers whose `before` returned `Continue`. If
/// the job is released or its lease is lost, neither of the two is called.
///
/// All three methods run on the Tokio runtime, or on the thread of a handler that is a plain function, and must not
/// block. Each is called at most once per attempt, even if a
/// conflict makes the handler run again, and always outside the transaction of a transactional handler.
///
/// ```
/// use std::ops::ControlFlow;
///
/// use diesel_jobs_core::{FailureKind, JobContext, JobError, Layer, Outcome, States, TypeKey};
///
/// /// Handlers take it as `State<RequestId>`.
/// #[derive(Clone, Debug, PartialEq)]
/// struct RequestId(String);
///
/// struct RequestIds;
///
/// impl Layer for RequestIds {
///     fn provides(&self) -> Vec<TypeKey> {
///         vec![TypeKey::of::<RequestId>()]
///     }
///
///     async fn before(&self, ctx: &JobContext, states: &mut States) -> Result<ControlFlow<Outcome>, JobError> {
///         states.insert(RequestId(ctx.idempotency_key()));
///         Ok(ControlFlow::Continue(()))
///     }
///
///     async fn error(&self, ctx: &JobContext, error: &JobError) {
///         if error.kind() == FailureKind::Panic {
///             eprintln!("{:?}: {error}", ctx.state::<RequestId>());
///         }
///     }
/// }
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let (ctx, mut states) = (diesel_jobs_core::TestContext::new("charge").build(), States::default());
/// assert!(RequestIds.before(&ctx, &mut states).await.unwrap().is_continue());
/// assert_eq!(states.get(), Some(&RequestId(ctx.idempotency_key())));
/// # });
/// ```
pub trait Layer: Send + Sync + 'static {
    /// The types of the values that [`before`](Self::before) adds to every attempt. Handlers may take these as
    /// `State<T>`. If `before` returns `Continue` without having added one of them, the attempt fails.
    fn provides(&self) -> Vec<TypeKey> {
        Vec::new()
    }

    /// Called before the handler. Values that it adds to `states` are available to this attempt only, and take
    /// precedence over values of the same types from the worker and from earlier layers. To read the latter, use
    /// `ctx.state`.
    ///
    /// If it returns `Ok(ControlFlow::Continue(()))`, the next layer or the handler is called. If it returns
    /// `Ok(ControlFlow::Break(outcome))` or an error, the attempt ends as if the handler had returned the outcome or
    /// the error, and the handler is not called. A panic counts as an error. The time limit of the attempt includes
    /// this call.
    fn before(
        &self,
        ctx: &JobContext,
        states: &mut States,
    ) -> impl Future<Output = Result<ControlFlow<Outcome>, JobError>> + Send {
        let _ = (ctx, states);
        std::future::ready(Ok(ControlFlow::Continue(())))
    }

    /// Called after an attempt that did not fail, before its end is written. For a transactional handler, it is called
    /// after the commit, and the outcome has no output if the job is not kept. The call cannot change the outcome. A
    /// panic is logged. The call is cancelled after 10 s, or at the end of the grace period.
    fn after(&self, ctx: &JobContext, outcome: &Outcome) -> impl Future<Output = ()> + Send {
        let _ = (ctx, outcome);
        std::future::ready(())
    }

    /// Called after an attempt that failed with an error, a panic, a timeout or arguments that cannot be decoded. It is
    /// called at the same point as [`after`](Self::after) and with the same limits. The values of secret arguments are
    /// removed from the error.
    fn error(&self, ctx: &JobContext, error: &JobError) -> impl Future<Output = ()> + Send {
        let _ = (ctx, error);
        std::future::ready(())
    }
}

/// A layer with its type erased.
trait AnyLayer: Send + Sync {
    fn name(&self) -> &'static str;
    fn provides(&self) -> Vec<TypeKey>;
    fn before<'a>(
        &'a self,
        ctx: &'a JobContext,
        states: &'a mut States,
    ) -> BoxFuture<'a, Result<ControlFlow<Outcome>, JobError>>;
    fn observe<'a>(&'a self, ctx: &'a JobContext, handled: &'a Handled) -> BoxFuture<'a, ()>;
}

impl<L: Layer> AnyLayer for L {
    fn name(&self) -> &'static str {
        std::any::type_name::<L>()
    }

    fn provides(&self) -> Vec<TypeKey> {
        Layer::provides(self)
    }

    fn before<'a>(
        &'a self,
        ctx: &'a JobContext,
        states: &'a mut States,
    ) -> BoxFuture<'a, Result<ControlFlow<Outcome>, JobError>> {
        Box::pin(async move { Layer::before(self, ctx, states).await })
    }

    fn observe<'a>(&'a self, ctx: &'a JobContext, handled: &'a Handled) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            match handled {
                Ok(outcome) => self.after(ctx, outcome).await,
                Err(error) => self.error(ctx, error).await,
            }
        })
    }
}

/// The layers of a worker, in the order in which they were added.
#[derive(Clone, Default)]
pub struct Layers(Vec<Arc<dyn AnyLayer>>);

impl fmt::Debug for Layers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|layer| layer.name())).finish()
    }
}

impl Layers {
    /// Adds a layer. Its `before` is called after that of the others, and its `after` or `error` before theirs.
    pub fn add(&mut self, layer: impl Layer) {
        self.0.push(Arc::new(layer));
    }

    /// Whether there are no layers.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds the types that the layers provide to the types of the worker's states, for
    /// [`Registry::check`](crate::Registry::check).
    pub fn known(&self, states: &States) -> States {
        let mut known = states.clone();
        self.0.iter().flat_map(|layer| layer.provides()).for_each(|key| known.declare(key));
        known
    }

    /// Calls `before` of the layers until one ends the attempt.
    pub async fn before(&self, ctx: &JobContext) -> ControlFlow<Handled> {
        for (layer, added) in self.0.iter().zip(ctx.layered(self.0.len())) {
            let mut states = States::default();
            match panics::caught_future(layer.before(ctx, &mut states)).await {
                Ok(Ok(ControlFlow::Continue(()))) => {}
                Ok(Ok(ControlFlow::Break(outcome))) => return ControlFlow::Break(Ok(outcome)),
                Ok(Err(error)) => return ControlFlow::Break(Err(error)),
                Err(panic) => {
                    return ControlFlow::Break(Err(panic.noted(format!("`before` of the layer `{}`", layer.name()))));
                }
            }
            if let Some(missing) = layer.provides().into_iter().find(|key| !states.contains(*key)) {
                return ControlFlow::Break(Err(JobError::msg(format!(
                    "the layer `{}` names `{}` in `provides`, but its `before` did not add it",
                    layer.name(),
                    missing.name
                ))));
            }
            // Each layer is called once per attempt.
            let _ = added.set(states);
        }
        ControlFlow::Continue(())
    }

    /// Calls `after` or `error` of the layers whose `before` returned `Continue`, the last one first. `limit` is for
    /// each call.
    pub async fn observe(&self, ctx: &JobContext, handled: &Handled, limit: Option<Duration>) {
        let hook = if handled.is_ok() { "after" } else { "error" };
        for layer in self.0.iter().take(ctx.layers_passed()).rev() {
            let mut call = layer.observe(ctx, handled);
            let observed = async {
                let called = panics::caught_future(&mut call);
                match limit {
                    Some(limit) => tokio::time::timeout(limit, called)
                        .await
                        .unwrap_or_else(|_| Err(JobError::msg(format!("was cancelled after {limit:?}")))),
                    None => called.await,
                }
            };
            let observed = observed.await;
            let dropped = panics::caught_call(|| drop(call));
            if let Err(problem) = observed.and(dropped) {
                telemetry::layer_failed(ctx, layer.name(), hook, &problem);
            }
        }
    }
}
