//! The keepalive settings in a URL. Ours are added for those that it does not contain.

use tokio_postgres::Config;

use super::settings::Keepalive;

/// Which keepalive settings the URL contains.
#[derive(Clone, Copy, Default)]
pub(super) struct KeepaliveOfUrl {
    keepalives: bool,
    idle: bool,
    interval: bool,
    count: bool,
    user_timeout: bool,
}

impl KeepaliveOfUrl {
    pub(super) fn of(parameters: &[(String, String)]) -> Self {
        let says = |name: &str| parameters.iter().any(|(of, _)| of == name);
        Self {
            keepalives: says("keepalives"),
            idle: says("keepalives_idle"),
            interval: says("keepalives_interval"),
            count: says("keepalives_count"),
            user_timeout: says("tcp_user_timeout"),
        }
    }

    /// Adds our values for the settings that the URL does not contain.
    pub(super) fn add_to(self, config: &mut Config, keepalive: Keepalive) {
        if !self.keepalives {
            config.keepalives(true);
        }
        if !self.idle {
            config.keepalives_idle(keepalive.idle);
        }
        if !self.interval {
            config.keepalives_interval(keepalive.interval);
        }
        if !self.count {
            config.keepalives_retries(keepalive.probes);
        }
        if !self.user_timeout {
            config.tcp_user_timeout(keepalive.unacknowledged);
        }
    }
}
