//! The dashboard as the application configures it.

use std::fmt;
use std::future::{Future, ready};
use std::sync::Arc;

use axum::Router;
use axum::http::request::Parts;
use diesel_jobs_core::{JobId, Registry};
use diesel_jobs_storage::Database;

use crate::guard::{Callback, Guard};
use crate::link::Base;
use crate::redact::{Part, Redactor, Subject};
use crate::rights::Rights;
use crate::routes;
use crate::site::Site;

/// The dashboard, before it is a [`Router`].
pub struct Dashboard {
    database: Database,
    base: Base,
    title: String,
    rights: Callback,
    redactor: Redactor,
    origins: Vec<String>,
    ancestors: Vec<String>,
}

impl Dashboard {
    /// A dashboard of this database. It refuses every request until [`rights`](Self::rights) are given.
    pub fn new(database: Database) -> Self {
        Self {
            database,
            base: Base::new(""),
            title: "Jobs".to_owned(),
            rights: Box::new(|_| Box::pin(ready(Rights::none()))),
            redactor: Redactor::new(),
            origins: Vec::new(),
            ancestors: Vec::new(),
        }
    }

    /// The path of the dashboard as the browser sees it, such as `/admin/jobs`. All links begin with it. If a proxy
    /// removes a prefix, this path has the prefix. Default: the root.
    #[must_use]
    pub fn at(mut self, path: &str) -> Self {
        self.base = Base::new(path);
        self
    }

    /// The name in the title of each page. Default: `Jobs`.
    #[must_use]
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.title = title.into();
        self
    }

    /// Says what the sender of a request may do. It is called for every page, action, asset and event stream, and
    /// repeatedly while an event stream is open. Without the right to read, nothing is answered.
    #[must_use]
    pub fn rights<F, R>(mut self, rights: F) -> Self
    where
        F: Fn(&Parts) -> R + Send + Sync + 'static,
        R: Future<Output = Rights> + Send + 'static,
    {
        self.rights = Box::new(move |parts| Box::pin(rights(parts)));
        self
    }

    /// Replaces what pages show of arguments, outputs and failures. Values of `#[arg(secret)]` arguments are removed
    /// before. If this program does not contain the job of the kind, the values of all arguments are.
    ///
    /// ```
    /// # use diesel_jobs_web::{Dashboard, Part};
    /// # fn redact(dashboard: Dashboard) -> Dashboard {
    /// dashboard.redact(|job, part, text| match (job.kind, part) {
    ///     ("send_mail", Part::Arguments) => "\"[hidden]\"".to_owned(),
    ///     _ => text,
    /// })
    /// # }
    /// ```
    #[must_use]
    pub fn redact(mut self, shown: impl Fn(Subject<'_>, Part, String) -> String + Send + Sync + 'static) -> Self {
        self.redactor.with_callback(Box::new(shown));
        self
    }

    /// The jobs whose secret arguments and aliases are known. Default: those that are linked into this program.
    #[must_use]
    pub fn registry(mut self, registry: Registry) -> Self {
        self.redactor.with_registry(registry);
        self
    }

    /// Shows the arguments of kinds that this program does not know, and lets filters search them. Their secret
    /// arguments are then shown, too, because only a program that knows a kind knows which ones are secret. Default:
    /// the values of such arguments are hidden.
    #[must_use]
    pub fn show_arguments_of_unknown_kinds(mut self) -> Self {
        self.redactor.show_unknown();
        self
    }

    /// Accepts actions from pages of this origin, such as `https://ops.example.org`. This is only needed behind a proxy
    /// that changes the header `Host`, for browsers that do not send `Sec-Fetch-Site`.
    #[must_use]
    pub fn origin(mut self, origin: impl Into<String>) -> Self {
        self.origins.push(origin.into());
        self
    }

    /// Lets pages of this origin show the dashboard in a frame: `https://ops.example.org`, `https://*.example.org`, or
    /// `'self'` for the dashboard's own origin. Can be called several times. Default: no page may. In a frame of
    /// another site, browsers send the application's session cookie only if it is `SameSite=None`.
    #[must_use]
    pub fn frame_ancestor(mut self, origin: impl Into<String>) -> Self {
        self.ancestors.push(origin.into());
        self
    }

    /// The path of a job's page, for links from your own pages.
    pub fn path_of(&self, job: JobId) -> String {
        self.base.to(&format!("/jobs/{job}"))
    }

    /// The router, to be nested at the path that [`at`](Self::at) names. With `nest_service` the path is answered with
    /// a slash at its end, too; with `nest` it is not.
    pub fn router(self) -> Router {
        let Self { database, base, title, rights, redactor, origins, ancestors } = self;
        let site = Arc::new(Site::new(database, base, title, redactor));
        routes::router(site, Guard::new(rights, &origins, &ancestors))
    }
}

impl fmt::Debug for Dashboard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dashboard").field("base", &self.base).finish_non_exhaustive()
    }
}
