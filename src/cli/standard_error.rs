//! Standard error. A command that runs for long hands its lines to a thread that writes them. So a reader that takes no
//! more of them, such as a log collector that hangs behind a full pipe, delays no job, no heartbeat and no shutdown. As
//! long as it takes none, [`CAPACITY`] bytes of lines are kept, and later lines are dropped and counted.
//!
//! The crate `tracing-appender` has such a thread, too. But its guard writes to the same standard error that it could
//! not flush it, so the process would not end. And it neither logs how many lines are missing, nor says that the reader
//! takes none.

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How many bytes of lines wait for the reader, at most.
const CAPACITY: usize = 1024 * 1024;

/// How long the end of the process waits for the reader.
const LAST_LINES: Duration = Duration::from_secs(2);

/// How long a thread that panics waits for the reader.
const AFTER_PANIC: Duration = Duration::from_millis(100);

static LINES: Lines = Lines::new();
static IS_QUEUED: AtomicBool = AtomicBool::new(false);

/// Standard error, for all lines of this program.
#[derive(Clone, Copy, Debug)]
pub(super) struct StandardError;

impl Write for StandardError {
    fn write(&mut self, lines: &[u8]) -> io::Result<usize> {
        if !IS_QUEUED.load(Ordering::Acquire) {
            return io::stderr().write(lines);
        }
        LINES.push(lines);
        Ok(lines.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// From now on a thread writes the lines. Without threads, each line is still written by who says it. `and_panics` also
/// hands it the messages of panics. This replaces the hook of the standard library, so it must be `false` if the
/// program may have installed its own.
pub(super) fn queue_lines(and_panics: bool) {
    let thread = std::thread::Builder::new().name("jobs-log".to_owned());
    if thread.spawn(|| LINES.write_to(io::stderr())).is_ok() {
        IS_QUEUED.store(true, Ordering::Release);
        if and_panics {
            queue_panics();
        }
    }
}

fn queue_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let thread = std::thread::current();
        let backtrace = std::backtrace::Backtrace::capture();
        let trace = match backtrace.status() {
            std::backtrace::BacktraceStatus::Captured => format!("\nstack backtrace:\n{backtrace}"),
            _ => String::new(),
        };
        let text = format!("thread '{}' {panic}{trace}\n", thread.name().unwrap_or("<unnamed>"));
        // At once, so that lines of other threads do not come between.
        let _ = StandardError.write_all(text.as_bytes());
        // The process may abort after this.
        LINES.flush(AFTER_PANIC);
    }));
}

/// Waits until the reader has taken all lines, two seconds at most. Then the process may end.
pub(super) fn flush() {
    if IS_QUEUED.load(Ordering::Acquire) {
        LINES.flush(LAST_LINES);
    }
}

/// For how long a line has waited without the reader taking any. `None` if no line waits.
#[cfg(any(feature = "dashboard", feature = "listen"))]
pub(super) fn unread_for() -> Option<Duration> {
    LINES.unread_for(Instant::now())
}

/// Flushes when it is dropped, so also when the main thread panics.
pub(super) struct FlushOnDrop;

impl Drop for FlushOnDrop {
    fn drop(&mut self) {
        flush();
    }
}

/// The lines between those who say them and the thread that writes them.
struct Lines {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    /// The lines that the thread has not begun to write.
    waiting: Vec<u8>,
    /// How many lines were dropped after these.
    dropped: u64,
    /// The thread writes. The time is when the reader last took something.
    writing_since: Option<Instant>,
}

impl Lines {
    const fn new() -> Self {
        let state = State { waiting: Vec::new(), dropped: 0, writing_since: None };
        Self { state: Mutex::new(state), changed: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing panics while the lock is held.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds lines, or drops them if there is no room. Once some were dropped, so are all until the thread comes for
    /// those that wait. So the lines are missing in one place, where their number is said.
    fn push(&self, lines: &[u8]) {
        let mut state = self.state();
        let fits = state.waiting.is_empty() || state.waiting.len() + lines.len() <= CAPACITY;
        if state.dropped == 0 && fits {
            state.waiting.extend_from_slice(lines);
            self.changed.notify_all();
        } else {
            state.dropped += 1;
        }
    }

    /// Writes the lines as they come. Does not end.
    fn write_to(&self, mut out: impl Write) {
        loop {
            let (lines, dropped) = self.next();
            if dropped > 0 {
                // It comes after these lines.
                say_dropped(dropped);
            }
            // One by one, so that lines of other processes that write there come between them and not into them.
            for line in lines.split_inclusive(|byte| *byte == b'\n') {
                // There is no other place to report a failure.
                let _ = out.write_all(line);
                self.state().writing_since = Some(Instant::now());
            }
            self.state().writing_since = None;
            self.changed.notify_all();
        }
    }

    /// Waits for lines, and takes all of them. Returns also how many were dropped after them.
    fn next(&self) -> (Vec<u8>, u64) {
        let is_empty = |state: &mut State| state.waiting.is_empty();
        let mut state = self.changed.wait_while(self.state(), is_empty).unwrap_or_else(PoisonError::into_inner);
        state.writing_since = Some(Instant::now());
        (std::mem::take(&mut state.waiting), std::mem::take(&mut state.dropped))
    }

    /// Waits until all lines are written, at most this long.
    fn flush(&self, limit: Duration) {
        let is_busy = |state: &mut State| !state.waiting.is_empty() || state.writing_since.is_some();
        drop(self.changed.wait_timeout_while(self.state(), limit, is_busy));
    }

    #[cfg(any(feature = "dashboard", feature = "listen", test))]
    fn unread_for(&self, now: Instant) -> Option<Duration> {
        self.state().writing_since.map(|since| now.saturating_duration_since(since))
    }
}

fn say_dropped(lines: u64) {
    tracing::warn!(
        target: "diesel_jobs", { log.dropped_lines = lines },
        "{} dropped, because standard error was not read", if lines == 1 { "a log line was".to_owned() } else { format!("{lines} log lines were") }
    );
}

#[cfg(test)]
mod tests {
    use std::io::{BufReader, PipeReader, Read as _};

    use super::*;

    /// A limit that only a hanging test reaches.
    const LIMIT: Duration = Duration::from_secs(300);

    /// Logs to these lines.
    #[derive(Clone, Copy)]
    struct To(&'static Lines);

    impl Write for To {
        fn write(&mut self, line: &[u8]) -> io::Result<usize> {
            self.0.push(line);
            Ok(line.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Lines that a thread writes into a pipe.
    fn into_a_pipe() -> (&'static Lines, BufReader<PipeReader>) {
        let (reader, writer) = io::pipe().unwrap();
        let lines: &'static Lines = Box::leak(Box::new(Lines::new()));
        std::thread::spawn(move || {
            let log = tracing_subscriber::fmt().with_ansi(false).with_writer(move || To(lines)).finish();
            tracing::subscriber::with_default(log, || lines.write_to(writer));
        });
        (lines, BufReader::new(reader))
    }

    fn next(reader: &mut impl io::BufRead) -> String {
        let mut line = String::new();
        assert_ne!(reader.read_line(&mut line).unwrap(), 0, "the pipe has ended");
        line
    }

    #[test]
    fn what_nobody_reads_is_dropped_and_counted_and_then_lines_go_on() {
        let (lines, mut reader) = into_a_pipe();
        for number in 0..3000 {
            lines.push(format!("{number:01023}\n").as_bytes());
        }
        // How many are dropped, and at how many places, depends on how fast the thread comes for the first ones.
        let (mut read, mut dropped, mut next_number) = (0, 0, 0);
        while read + dropped < 3000 {
            let line = next(&mut reader);
            match line.trim_end().parse::<u64>() {
                Ok(number) => {
                    assert_eq!(number, next_number, "they are in order, and none is missing that was not counted");
                    (read, next_number) = (read + 1, number + 1);
                }
                Err(_) => {
                    let (_, said) = line.split_once("WARN diesel_jobs: ").unwrap();
                    let (number, _) = said.split_once(" log lines were dropped").unwrap();
                    let number: u64 = number.parse().unwrap();
                    (dropped, next_number) = (dropped + number, next_number + number);
                }
            }
        }
        assert!(read >= 1000 && dropped > 0, "{read} and {dropped}");
        lines.push(b"next\n");
        assert_eq!(next(&mut reader), "next\n");
    }

    #[test]
    fn a_line_of_any_length_is_written_if_no_other_waits() {
        let (lines, mut reader) = into_a_pipe();
        lines.push(&[b"x".repeat(2 * CAPACITY), b"\n".to_vec()].concat());
        assert_eq!(next(&mut reader).len(), 2 * CAPACITY + 1);
    }

    #[test]
    fn a_line_waits_from_when_the_reader_last_took_something() {
        let (lines, mut reader) = into_a_pipe();
        assert_eq!(lines.unread_for(Instant::now()), None);
        // It does not fit into the pipe. Once a part of it is there, the thread waits in the middle of it.
        lines.push(&[b"x".repeat(CAPACITY), b"\n".to_vec()].concat());
        reader.read_exact(&mut [0]).unwrap();
        let minute = Duration::from_secs(60);
        assert!(lines.unread_for(Instant::now() + minute).is_some_and(|unread| unread >= minute));
        next(&mut reader);
        lines.flush(LIMIT);
        assert_eq!(lines.unread_for(Instant::now() + minute), None);
    }

    #[test]
    fn a_flush_waits_for_the_reader_but_not_for_ever() {
        let (lines, mut reader) = into_a_pipe();
        lines.push(&[b"x".repeat(CAPACITY), b"\n".to_vec()].concat());
        lines.flush(Duration::from_millis(1));
        let read = std::thread::spawn(move || next(&mut reader).len());
        lines.flush(LIMIT);
        assert!(lines.state().waiting.is_empty() && lines.unread_for(Instant::now()).is_none());
        assert_eq!(read.join().unwrap(), CAPACITY + 1);
    }
}
