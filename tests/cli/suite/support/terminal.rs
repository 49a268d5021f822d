//! A real terminal: tmux runs a shell in it, types keys and reads the screen.

use std::process::Command;
use std::sync::OnceLock;

use super::{Scratch, until};

/// A terminal with a shell in it. It ends with the test.
pub(crate) struct Terminal {
    /// The directory of the server's socket.
    scratch: Scratch,
}

fn tmux() -> &'static std::path::Path {
    static TMUX: OnceLock<std::path::PathBuf> = OnceLock::new();
    TMUX.get_or_init(|| cluster::tmux::ensure().unwrap())
}

impl Terminal {
    pub(crate) fn open(width: u16, height: u16) -> Self {
        let terminal = Self { scratch: Scratch::new() };
        let (width, height) = (width.to_string(), height.to_string());
        terminal.tmux(&["-f", "/dev/null", "new-session", "-d", "-x", &width, "-y", &height, "env PS1='shell> ' sh"]);
        terminal.await_text("shell>");
        terminal
    }

    fn command(&self) -> Command {
        let mut command = Command::new(tmux());
        command.arg("-S").arg(self.scratch.path().join("tmux"));
        command
    }

    pub(crate) fn tmux(&self, args: &[&str]) -> String {
        let output = self.command().args(args).env("TERM", "xterm-256color").output().unwrap();
        assert!(output.status.success(), "tmux {args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    pub(crate) fn keys(&self, keys: &[&str]) {
        self.tmux(&[&["send-keys"], keys].concat());
    }

    pub(crate) fn screen(&self) -> String {
        self.tmux(&["capture-pane", "-p"])
    }

    /// The screen with its colours, as escape sequences.
    pub(crate) fn colours(&self) -> String {
        self.tmux(&["capture-pane", "-p", "-e"])
    }

    pub(crate) fn await_screen(&self, what: &str, is_there: impl Fn(&str) -> bool) -> String {
        until(|| {
            let screen = self.screen();
            if is_there(&screen) { Ok(screen) } else { Err(format!("{what} is missing on the screen:\n{screen}")) }
        })
    }

    pub(crate) fn await_text(&self, text: &str) -> String {
        self.await_screen(text, |screen| screen.contains(text))
    }

    /// The shell has its screen back, and shows what is typed.
    pub(crate) fn await_shell(&self) {
        self.await_screen("the shell's screen", |screen| !screen.contains("queues (") && screen.contains("shell>"));
        self.keys(&["echo gi''ven back", "Enter"]);
        self.await_text("given back");
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.command().arg("kill-server").output();
    }
}
