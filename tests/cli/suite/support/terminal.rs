//! A real terminal: tmux runs a shell in it, types keys and reads the screen.

use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(30);

/// A terminal with a shell in it. It ends with the test.
pub(crate) struct Terminal {
    socket: String,
}

fn tmux() -> &'static std::path::Path {
    static TMUX: OnceLock<std::path::PathBuf> = OnceLock::new();
    TMUX.get_or_init(|| cluster::tmux::ensure().unwrap())
}

impl Terminal {
    pub(crate) fn open(width: u16, height: u16) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let terminal = Self { socket: format!("jobs-cli-{}-{number}", std::process::id()) };
        let (width, height) = (width.to_string(), height.to_string());
        terminal.tmux(&["-f", "/dev/null", "new-session", "-d", "-x", &width, "-y", &height, "env PS1='shell> ' sh"]);
        terminal.await_text("shell>");
        terminal
    }

    pub(crate) fn tmux(&self, args: &[&str]) -> String {
        let output = Command::new(tmux()).args(["-L", &self.socket]).args(args).env("TERM", "xterm-256color").output();
        let output = output.unwrap();
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
        let begun = Instant::now();
        loop {
            let screen = self.screen();
            if is_there(&screen) {
                return screen;
            }
            assert!(begun.elapsed() < LIMIT, "{what} is missing on the screen:\n{screen}");
            std::thread::sleep(Duration::from_millis(50));
        }
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
        let _ = Command::new(tmux()).args(["-L", &self.socket, "kill-server"]).output();
    }
}
