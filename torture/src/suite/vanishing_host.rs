//! A host that can vanish: a network namespace with a link to this machine. When the link drops what the host sends,
//! its connections stay open on the server, and the server gets no message about that.

use std::process::Command;

use anyhow::{Context as _, Result, bail};

/// The two ends of each link are `10.P.N.1`, which is this machine, and `10.P.N.2`. P is made from the process id,
/// because a run that was killed leaves its link behind.
fn net() -> String {
    format!("10.{}", 100 + std::process::id() % 150)
}

/// A host in a network namespace. When it is dropped, it is removed with its link.
#[derive(Debug)]
pub(super) struct Host {
    name: String,
    number: u8,
}

impl Host {
    /// Creates a host. Each needs its own `number`.
    pub(super) fn start(number: u8) -> Result<Self> {
        let host = Self { name: format!("torture{}-{number}", std::process::id()), number };
        let (here, there) = (format!("t{}h{number}", std::process::id()), format!("t{}w{number}", std::process::id()));
        let name = &host.name;
        for args in [
            format!("netns add {name}"),
            format!("link add {here} type veth peer name {there}"),
            format!("link set {there} netns {name}"),
            format!("addr add {}.{number}.1/30 dev {here}", net()),
            format!("link set {here} up"),
            format!("-n {name} addr add {}.{number}.2/30 dev {there}", net()),
            format!("-n {name} link set {there} up"),
            format!("-n {name} link set lo up"),
        ] {
            ip(&args).context("this test makes network namespaces: it needs root and `ip` (package iproute2)")?;
        }
        Ok(host)
    }

    /// The address of this machine, as the host sees it.
    pub(super) fn server(&self) -> String {
        format!("{}.{}.1", net(), self.number)
    }

    /// The address of the host, as this machine sees it.
    pub(super) fn address(&self) -> String {
        format!("{}.{}.2", net(), self.number)
    }

    /// Returns a command that runs `command` on the host.
    pub(super) fn runs(&self, command: &Command) -> Command {
        let mut there = Command::new("ip");
        there.args(["netns", "exec", &self.name]).arg(command.get_program()).args(command.get_args());
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => there.env(name, value),
                None => there.env_remove(name),
            };
        }
        there
    }

    /// Drops everything that the host sends from now on, acknowledgements included.
    pub(super) fn vanish(&self) -> Result<()> {
        ip(&format!("-n {} route add blackhole {}/32", self.name, self.server()))
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // This also removes the link.
        let _ = ip(&format!("netns del {}", self.name));
    }
}

fn ip(args: &str) -> Result<()> {
    let output = Command::new("ip").args(args.split(' ')).output().context("cannot run `ip`")?;
    if !output.status.success() {
        bail!("ip {args}: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}
