//! The options of `dashboard`.

use std::net::SocketAddr;

use clap::Args;

use super::super::parse::socket;

#[derive(Debug, Args)]
pub(in super::super) struct DashboardArgs {
    /// The address to listen on, also for probes (/livez and /readyz); with port 0 the system chooses one
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:8080", value_parser = socket)]
    pub(super) listen: SocketAddr,
    /// Only show pages, and change nothing
    #[arg(long)]
    pub(super) read_only: bool,
    /// Show the arguments of kinds that this program does not contain, including secret ones: it does not know which
    /// are secret
    #[arg(long)]
    pub(super) show_arguments_of_unknown_kinds: bool,
    /// Listen at an address that other machines can reach. Needs a token in JOBS_DASHBOARD_TOKEN, and should have a
    /// proxy with TLS before it
    #[arg(long)]
    pub(super) allow_remote: bool,
    /// The path of the dashboard as browsers see it, if a proxy serves it below one, such as /admin/jobs
    #[arg(long, value_name = "PATH", default_value = "/")]
    pub(super) base: String,
    /// The origins whose pages may show the dashboard in a frame, such as https://ops.example.org [default: none]
    #[arg(long, value_name = "ORIGIN,..", value_delimiter = ',')]
    pub(super) frame_ancestors: Vec<String>,
    /// The name under which actions are recorded. With a token, it is the user name that the browser sends [default:
    /// JOBS_ACTOR, or the user of this machine]
    #[arg(long, value_name = "NAME")]
    pub(super) actor: Option<String>,
}
