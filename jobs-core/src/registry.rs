//! The registry: the handler of each kind.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::declared_schedule::{Declarations, DeclaredSchedule};
use crate::discarded::{DiscardRule, InvalidDiscardRule};
use crate::handler::{Handler, Registered, Registration};
use crate::missing_state;
use crate::schedule::Schedule;
use crate::secrets;
use crate::states::States;
use crate::storage::{JobFilter, searchable};
use crate::unique::without_version;

mod error;

pub use error::RegistryError;

/// The kinds that a worker can run.
#[derive(Clone, Debug, Default)]
pub struct Registry {
    kinds: BTreeMap<&'static str, Registration>,
    duplicates: Vec<(Registration, Registration)>,
    /// Each kind that is stored under an alias, with its present name.
    renamed: BTreeMap<&'static str, &'static str>,
    discard_rules: Vec<DiscardRule>,
    invalid_rules: Vec<(Registration, Arc<InvalidDiscardRule>)>,
    has_batches: bool,
}

impl Registry {
    /// An empty registry. Add job types with [`with`](Self::with).
    pub fn new() -> Self {
        Self::default()
    }

    /// All jobs that are linked into this program.
    pub fn linked() -> Self {
        let mut registry = Self::new();
        for registration in inventory::iter::<Registration> {
            registry.insert(*registration);
        }
        registry
    }

    /// Adds a job type.
    pub fn with<J: Registered>(mut self) -> Self {
        self.insert(J::REGISTRATION);
        self
    }

    /// Adds a registration, for its kind, for the kinds of the earlier versions that its handler runs, and for all of
    /// these under its aliases. If a kind is registered twice, [`check`](Self::check) returns an error.
    pub fn insert(&mut self, registration: Registration) {
        let Registration { kind, earlier, aliases, schedule, .. } = registration;
        let own: Vec<&'static str> = earlier.iter().copied().chain([kind]).collect();
        // Programs in which the kind still has its oldest name declare the schedule under that name. It stays one
        // schedule, with one row, so that no tick runs twice while old and new programs run side by side.
        let scheduled = aliases.first().and_then(|kinds| kinds.last()).copied().unwrap_or(kind);
        for kinds in [&*own].into_iter().chain(aliases.iter().copied()) {
            for (&stored, &present) in kinds.iter().zip(&own) {
                let mut options = registration.options;
                if present != kind && !options.secrets.is_empty() {
                    // The names of the secret arguments of earlier versions are not known.
                    options = options.secrets(secrets::ALL);
                }
                if stored != present {
                    self.renamed.insert(stored, present);
                }
                let schedule = schedule.filter(|_| stored == scheduled);
                let one = Registration { kind: stored, earlier: &[], aliases: &[], options, schedule, ..registration };
                self.insert_kind(one);
            }
        }
    }

    fn insert_kind(&mut self, registration: Registration) {
        match registration.on_discarded.map(|enqueued| DiscardRule::new(registration.kind, enqueued)) {
            Some(Ok(rule)) => self.discard_rules.push(rule),
            Some(Err(problem)) => self.invalid_rules.push((registration, Arc::new(problem))),
            None => {}
        }
        self.has_batches |= matches!(registration.handler, Handler::Batch(_));
        if let Some(first) = self.kinds.insert(registration.kind, registration) {
            self.duplicates.push((first, registration));
        }
    }

    /// The registration of a kind.
    pub fn get(&self, kind: &str) -> Option<&Registration> {
        self.kinds.get(kind)
    }

    /// The names under which jobs of this kind are stored: its present one, and then its aliases. A kind that is not
    /// registered has only the given name. A pause, a retention or a filter of a kind concerns all of its names.
    pub fn names<'a>(&self, kind: &'a str) -> Vec<&'a str> {
        let present = self.present_name(kind);
        let aliases = self.renamed.iter().filter(|(_, of)| **of == present).map(|(alias, _)| *alias);
        [present].into_iter().chain(aliases).collect()
    }

    /// The present name of a kind that is stored under an alias. That of any other kind is the given name.
    pub fn present_name<'a>(&self, kind: &'a str) -> &'a str {
        self.renamed.get(kind).copied().unwrap_or(kind)
    }

    /// The filter that finds the jobs that a user means: those of each kind under all of its names. Fails if it could
    /// find out the value of a secret argument. `unknown_are_shown`: the program shows the arguments of kinds that it
    /// does not know.
    pub fn searchable(&self, filter: &JobFilter, unknown_are_shown: bool) -> Result<JobFilter, String> {
        let mut kinds: Vec<String> = Vec::new();
        for name in filter.kinds.iter().flat_map(|kind| self.names(kind)) {
            if !kinds.iter().any(|known| known == name) {
                kinds.push(name.to_owned());
            }
        }
        searchable(&JobFilter { kinds, ..filter.clone() }, self.secrets(), unknown_are_shown)
    }

    /// All registrations, by kind.
    pub fn iter(&self) -> impl Iterator<Item = &Registration> {
        self.kinds.values()
    }

    /// Each kind with the names of its secret arguments.
    pub fn secrets(&self) -> impl Iterator<Item = (&'static str, &'static [&'static str])> {
        self.kinds.values().map(|registration| (registration.kind, registration.options.secrets))
    }

    /// The kinds, sorted.
    pub fn kinds(&self) -> Vec<String> {
        self.kinds.keys().map(|kind| (*kind).to_owned()).collect()
    }

    /// The schedules that the registered jobs declare, by name.
    pub(crate) fn schedules(&self) -> Declarations {
        let declared = |Registration { kind, schedule, .. }: &Registration| {
            let name = (*kind).to_owned();
            schedule.map(|spec| (name.clone(), DeclaredSchedule::new(name, spec)))
        };
        self.iter().filter_map(declared).collect()
    }

    /// What is enqueued when jobs of the registered kinds are discarded.
    pub fn discard_rules(&self) -> &[DiscardRule] {
        &self.discard_rules
    }

    /// Whether jobs of any kind have a rule.
    pub(crate) fn has_rules(&self) -> bool {
        self.iter().any(|registration| !registration.options.rules.is_empty())
    }

    /// The default queues of the registered kinds, sorted.
    pub fn queues(&self) -> BTreeSet<&'static str> {
        self.iter().map(|registration| registration.options.queue).collect()
    }

    /// Whether a handler takes batches.
    pub(crate) fn has_batches(&self) -> bool {
        self.has_batches
    }

    /// The default queue and the size of the batches of each kind whose handler takes batches.
    pub(crate) fn batches(&self) -> impl Iterator<Item = (&'static str, usize)> {
        self.iter().filter_map(|registration| match registration.handler {
            Handler::Batch(handler) => Some((registration.options.queue, handler.most)),
            _ => None,
        })
    }

    /// Reports errors that would otherwise appear only when a job runs.
    pub fn check(
        &self,
        states: &States,
        provides: impl Fn(std::any::TypeId) -> bool,
        database: &'static str,
    ) -> Result<(), RegistryError> {
        if self.kinds.is_empty() {
            return Err(RegistryError::Empty);
        }
        if let Some((first, second)) = self.duplicates.first() {
            return Err(twice(first, second));
        }
        if let Some((Registration { kind, location, .. }, problem)) = self.invalid_rules.first() {
            let kind = self.present_name(kind);
            return Err(RegistryError::OnDiscarded { kind, location, problem: problem.clone() });
        }
        for &Registration { kind: stored, location, states: takes, connection, schedule, handler, .. } in self.iter() {
            // The code has the present name. An alias may come first.
            let kind = self.present_name(stored);
            if let Some(state) = takes.iter().map(|key| key()).find(|key| !states.contains(*key)) {
                let (given, near) = missing_state::explain(state.name, &states.names());
                return Err(RegistryError::MissingState { kind, location, state: state.name, given, near });
            }
            if let Some(asked) = connection.map(|key| key()).filter(|key| !provides(key.id)) {
                return Err(RegistryError::WrongConnection { kind, location, connection: asked.name, database });
            }
            if let Handler::WithRows(handler) = handler
                && !(handler.connections)().iter().any(|key| provides(key.id))
            {
                return Err(RegistryError::WrongRows { kind, location, database });
            }
            if let Some(spec) = schedule {
                Schedule::parse(spec.expression, spec.timezone).map_err(|problem| RegistryError::Schedule {
                    kind,
                    location,
                    problem,
                })?;
            }
        }
        Ok(())
    }
}

/// The error about a kind that two handlers have.
fn twice(first: &Registration, second: &Registration) -> RegistryError {
    let kind = first.kind;
    let place = |r: &Registration| format!("`{}` ({})", r.type_name, r.location);
    let is_alias = |r: &Registration| r.options.aliases.contains(&without_version(kind));
    let (renamed, other) = if is_alias(first) { (first, second) } else { (second, first) };
    if !is_alias(renamed) {
        return RegistryError::Duplicate { kind, first: place(first), second: place(second) };
    }
    let what = if is_alias(other) { "an alias" } else { "the kind" };
    RegistryError::Alias { kind, renamed: place(renamed), other: format!("{what} of {}", place(other)) }
}
