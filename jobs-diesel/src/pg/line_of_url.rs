//! What a URL says about dead connections, and the settings that it does not make.

use tokio_postgres::Config;

use super::settings::Line;

/// Which settings for dead connections the URL makes itself, by the names of its parameters.
#[derive(Clone, Copy, Default)]
pub(super) struct LineOfUrl {
    keepalives: bool,
    idle: bool,
    interval: bool,
    retries: bool,
    user_timeout: bool,
}

impl LineOfUrl {
    pub(super) fn of(query: &str) -> Self {
        let says = |name: &str| query.split('&').any(|pair| pair.split('=').next() == Some(name));
        Self {
            keepalives: says("keepalives"),
            idle: says("keepalives_idle"),
            interval: says("keepalives_interval"),
            retries: says("keepalives_retries"),
            user_timeout: says("tcp_user_timeout"),
        }
    }

    /// Makes the settings that the URL does not make.
    pub(super) fn add_to(self, config: &mut Config, line: Line) {
        if !self.keepalives {
            config.keepalives(true);
        }
        if !self.idle {
            config.keepalives_idle(line.idle);
        }
        if !self.interval {
            config.keepalives_interval(line.interval);
        }
        if !self.retries {
            config.keepalives_retries(line.probes);
        }
        if !self.user_timeout {
            config.tcp_user_timeout(line.unacknowledged);
        }
    }
}
