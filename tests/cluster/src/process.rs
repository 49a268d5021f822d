//! Whether the server runs. A pid file alone does not prove that: the process may have ended, and its id may belong to
//! another process.

use std::{
    fs,
    io::{Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpStream},
    path::Path,
    process::Command,
    time::Duration,
};

/// The content of `postmaster.pid`.
#[derive(Debug, PartialEq)]
pub(crate) struct PidFile {
    pub(crate) pid: u32,
    pub(crate) port: u16,
}

impl PidFile {
    pub(crate) fn read(data: &Path) -> Option<Self> {
        Self::parse(&fs::read_to_string(data.join("postmaster.pid")).ok()?)
    }

    fn parse(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        let pid = lines.next()?.trim().parse().ok()?;
        let port = lines.nth(2)?.trim().parse().ok()?;
        Some(Self { pid, port })
    }

    /// Whether the process is a server on this data directory, whose path is in its command line.
    pub(crate) fn is_server_of(&self, data: &Path) -> bool {
        let line = fs::read(format!("/proc/{}/cmdline", self.pid)).or_else(|_| {
            Command::new("ps").args(["-ww", "-o", "command=", "-p", &self.pid.to_string()]).output().map(|o| o.stdout)
        });
        line.is_ok_and(|line| String::from_utf8_lossy(&line).contains(&*data.to_string_lossy()))
    }

    /// Whether something on the port replies to a request for TLS as PostgreSQL does.
    pub(crate) fn answers(&self) -> bool {
        const REQUEST: [u8; 8] = [0, 0, 0, 8, 4, 210, 22, 47];
        let attempt = || {
            let limit = Duration::from_secs(2);
            let mut stream = TcpStream::connect_timeout(&SocketAddr::from((Ipv4Addr::LOCALHOST, self.port)), limit)?;
            stream.set_read_timeout(Some(limit))?;
            stream.write_all(&REQUEST)?;
            let mut answer = [0];
            stream.read_exact(&mut answer)?;
            std::io::Result::Ok(answer[0])
        };
        attempt().is_ok_and(|answer| matches!(answer, b'S' | b'N'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pid_file_is_understood_or_ignored() {
        let text = "4711\n/data\n1700000000\n54321\n/socket\n127.0.0.1\n  1 2\nready\n";
        assert_eq!(PidFile::parse(text), Some(PidFile { pid: 4711, port: 54321 }));
        assert_eq!(PidFile::parse("4711\n/data\n"), None);
        assert_eq!(PidFile::parse(""), None);
    }

    #[test]
    fn a_pid_of_another_process_is_not_our_server() {
        let ours = PidFile { pid: std::process::id(), port: 1 };
        assert!(!ours.is_server_of(Path::new("/no/such/data")));
        assert!(!ours.answers());
    }
}
