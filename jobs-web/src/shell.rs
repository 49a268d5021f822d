//! The frame of each page: its head, the navigation and the notices.

use chrono::{DateTime, Utc};
use diesel_jobs_core::{Freeze, Installation};

use crate::link::Base;
use crate::rights::{Action, Rights};
use crate::site::Site;

/// The entries of the navigation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Overview,
    Jobs,
    Queues,
    Kinds,
    Limits,
    Workers,
    Schedules,
    Failures,
    Operations,
    Doctor,
    Nowhere,
}

/// Place, path, name, and the key that leads there after a `g`.
const PLACES: [(Place, &str, &str, &str); 10] = [
    (Place::Overview, "/", "Overview", "o"),
    (Place::Jobs, "/jobs", "Jobs", "j"),
    (Place::Queues, "/queues", "Queues", "q"),
    (Place::Kinds, "/kinds", "Kinds", "k"),
    (Place::Limits, "/limits", "Limits", "l"),
    (Place::Workers, "/workers", "Workers", "w"),
    (Place::Schedules, "/schedules", "Schedules", "s"),
    (Place::Failures, "/failures", "Failures", "f"),
    (Place::Operations, "/operations", "Operations", "p"),
    (Place::Doctor, "/doctor", "Doctor", "d"),
];

/// One link of the navigation.
pub(crate) struct Entry {
    pub(crate) url: String,
    pub(crate) name: &'static str,
    /// With `g` before it, the key that leads there.
    pub(crate) key: &'static str,
    pub(crate) here: bool,
}

/// What the frame of a page needs.
pub(crate) struct Shell {
    pub(crate) base: Base,
    pub(crate) site: String,
    pub(crate) title: String,
    /// What a reader of the tab should know, such as `3 failing`. Empty: nothing.
    pub(crate) alert: String,
    pub(crate) assets: [String; 3],
    pub(crate) entries: Vec<Entry>,
    pub(crate) now: DateTime<Utc>,
    pub(crate) environment: Option<String>,
    pub(crate) frozen: Option<Freeze>,
    /// Why nothing can be changed, if the database takes no writes.
    pub(crate) read_only: Option<&'static str>,
    /// The address of the event stream of this page. `None`: the page does not change by itself.
    pub(crate) events: Option<String>,
    rights: Rights,
}

impl Shell {
    pub(crate) fn new(site: &Site, rights: &Rights, installation: Installation, place: Place, title: &str) -> Self {
        let entries =
            PLACES.map(|(entry, path, name, key)| Entry { url: site.base.to(path), name, key, here: entry == place });
        let Installation { environment, frozen, standby, read_only } = installation;
        let read_only = match (standby, read_only) {
            (true, _) => Some("The database is a standby, which takes no writes."),
            (false, true) => {
                Some("The setting default_transaction_read_only is on for the server, this database or this role.")
            }
            (false, false) => None,
        };
        Self {
            base: site.base.clone(),
            site: site.title.clone(),
            title: title.to_owned(),
            alert: String::new(),
            assets: site.assets.clone(),
            entries: entries.into(),
            now: Utc::now(),
            environment,
            frozen,
            read_only,
            events: None,
            rights: rights.clone(),
        }
    }

    /// Makes the script update the page while it is open. `query` is the query of the page.
    pub(crate) fn live(mut self, path: &str, query: &str) -> Self {
        let page = if query.is_empty() { path.to_owned() } else { format!("{path}?{query}") };
        self.events = Some(self.base.with("/events", [("page", page.as_str())]));
        self
    }

    /// The title of the tab: what is to be known at once, the page, the environment and the site.
    pub(crate) fn tab(&self) -> String {
        let alert = if self.frozen.is_some() { "frozen" } else { self.alert.as_str() };
        let alert = if alert.is_empty() { String::new() } else { format!("● {alert}") };
        let environment = self.environment.as_deref().unwrap_or_default();
        let parts = [&alert, self.title.as_str(), environment, self.site.as_str()];
        parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" · ")
    }

    pub(crate) fn actor(&self) -> &str {
        self.rights.actor()
    }

    /// Whether the page offers this action.
    pub(crate) fn may(&self, action: Action) -> bool {
        self.read_only.is_none() && self.rights.may(action)
    }

    pub(crate) fn link(&self, path: &str) -> String {
        self.base.to(path)
    }

    /// The address of a page with one pair as its query.
    pub(crate) fn one(&self, path: &str, name: &str, value: &str) -> String {
        self.base.with(path, [(name, value)])
    }

    pub(crate) fn asset(&self, at: usize) -> String {
        self.base.to(&format!("/assets/{}", self.assets[at]))
    }
}
