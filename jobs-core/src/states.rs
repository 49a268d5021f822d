//! The values that handlers share, by their types.

use std::any::{Any, TypeId, type_name};
use std::collections::HashMap;
use std::sync::Arc;

/// A type and its name, for messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct TypeKey {
    /// The type.
    pub id: TypeId,
    /// Its path.
    pub name: &'static str,
}

impl TypeKey {
    /// The key of `T`.
    pub fn of<T: 'static>() -> Self {
        Self { id: TypeId::of::<T>(), name: type_name::<T>() }
    }
}

/// A parameter of a job: a clone of the value that a layer added to the attempt or, if there is none, that the worker
/// was given with `WorkerBuilder::state`.
///
/// ```text
/// #[job]
/// async fn send(to: String, State(mailer): State<Mailer>) -> Result<(), MailError> { mailer.send(&to).await }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct State<T>(pub T);

/// A set of values, one per type, that handlers can take as [`State`].
#[derive(Clone, Default)]
pub struct States(HashMap<TypeId, SharedValue>);

#[derive(Clone)]
struct SharedValue {
    type_name: &'static str,
    value: Arc<dyn Any + Send + Sync>,
}

impl States {
    /// Adds a value. It replaces an earlier value of the same type.
    pub fn insert<T: Send + Sync + 'static>(&mut self, value: T) {
        self.0.insert(TypeId::of::<T>(), SharedValue { type_name: type_name::<T>(), value: Arc::new(value) });
    }

    /// The value of this type.
    pub fn get<T: Send + Sync + 'static>(&self) -> Option<&T> {
        self.0.get(&TypeId::of::<T>())?.value.downcast_ref()
    }

    /// Whether there is a value of the type with this key.
    pub fn contains(&self, key: TypeKey) -> bool {
        self.0.contains_key(&key.id)
    }

    /// Makes `contains` true for this type, without a value.
    pub(crate) fn declare(&mut self, key: TypeKey) {
        self.0.entry(key.id).or_insert_with(|| SharedValue { type_name: key.name, value: Arc::new(()) });
    }

    /// The types' names, sorted.
    pub(crate) fn names(&self) -> Vec<&'static str> {
        let mut names: Vec<_> = self.0.values().map(|given| given.type_name).collect();
        names.sort_unstable();
        names
    }
}
