//! The stream that renames the schema. It splits what is written to it into messages of the protocol, and rewrites
//! those that hold SQL. What is read passes unchanged.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::tls::{ChannelBinding, TlsStream};

use super::{ORIGINAL, SCHEMA};

/// A TCP socket or a Unix socket.
pub(super) struct Socket(Box<dyn Wire>);

/// The traits of a socket.
trait Wire: AsyncRead + AsyncWrite + Unpin + Send {}
impl<W: AsyncRead + AsyncWrite + Unpin + Send> Wire for W {}

impl Socket {
    pub(super) fn new(socket: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) -> Self {
        Self(Box::new(socket))
    }
}

impl AsyncRead for Socket {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl AsyncWrite for Socket {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

/// Makes TLS connections inside of the stream that renames.
pub(super) struct RenamingTls<T>(pub(super) T);

/// A stream to a server. It renames the schema in the SQL that is written to it.
pub(super) struct Renaming<S> {
    inner: S,
    messages: Messages,
}

impl<S> Renaming<S> {
    pub(super) fn new(inner: S) -> Self {
        Self { inner, messages: Messages::default() }
    }
}

impl<S: AsyncWrite + Unpin> Renaming<S> {
    /// Writes the complete messages to the inner stream.
    fn poll_drain(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.messages.written < self.messages.ready.len() {
            let rest = &self.messages.ready[self.messages.written..];
            match ready!(Pin::new(&mut self.inner).poll_write(cx, rest))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                written => self.messages.written += written,
            }
        }
        self.messages.ready.clear();
        self.messages.written = 0;
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Renaming<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        ready!(self.poll_drain(cx))?;
        self.messages.take(bytes);
        // All bytes were taken, whether or not the socket has room for them now. The flush that follows waits for it.
        match self.poll_drain(cx) {
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            _ => Poll::Ready(Ok(bytes.len())),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_drain(cx))?;
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_drain(cx))?;
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Renaming<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(cx, buf)
    }
}

impl<S: TlsStream + Unpin> TlsStream for Renaming<S> {
    fn channel_binding(&self) -> ChannelBinding {
        self.inner.channel_binding()
    }
}

/// Bytes that are not yet written to the server.
#[derive(Default)]
struct Messages {
    /// Whether the first message is complete. The first message has no tag before its length.
    begun: bool,
    /// The beginning of a message whose end was not written yet.
    partial: Vec<u8>,
    /// Complete messages.
    ready: Vec<u8>,
    /// How many bytes of the complete messages are already written.
    written: usize,
}

impl Messages {
    fn take(&mut self, bytes: &[u8]) {
        self.partial.extend_from_slice(bytes);
        let mut at = 0;
        while let Some(length) = self.whole(at) {
            let message = &self.partial[at..at + length];
            match message[0] {
                // The messages Parse and Query.
                tag @ (b'P' | b'Q') if self.begun => {
                    let body = renamed(&message[5..]);
                    self.ready.push(tag);
                    // The length includes the length field itself.
                    self.ready.extend_from_slice(&u32::try_from(body.len() + 4).unwrap_or(u32::MAX).to_be_bytes());
                    self.ready.extend_from_slice(&body);
                }
                _ => self.ready.extend_from_slice(message),
            }
            self.begun = true;
            at += length;
        }
        self.partial.drain(..at);
    }

    /// The length of the message that begins at `at`. `None` if its end was not written yet.
    fn whole(&self, at: usize) -> Option<usize> {
        let tag = usize::from(self.begun);
        let field = self.partial.get(at + tag..at + tag + 4)?;
        let length = tag + u32::from_be_bytes(field.try_into().ok()?) as usize;
        (length > tag && self.partial.len() >= at + length).then_some(length)
    }
}

/// Returns the text with the schema renamed. A word is renamed if it is exactly the name. Binds are not in the text,
/// because other messages carry them.
fn renamed(text: &[u8]) -> Vec<u8> {
    let name = ORIGINAL.as_bytes();
    // For PostgreSQL every byte beyond ASCII is a letter.
    let in_a_word =
        |byte: Option<&u8>| byte.is_some_and(|b| b.is_ascii_alphanumeric() || b"_$".contains(b) || !b.is_ascii());
    let mut out = Vec::with_capacity(text.len() + 256);
    let mut at = 0;
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        let starts_a_word = !in_a_word(at.checked_sub(1).and_then(|before| text.get(before)));
        if starts_a_word && rest.starts_with(name) && !in_a_word(rest.get(name.len())) {
            out.extend_from_slice(SCHEMA.as_bytes());
            at += name.len();
        } else {
            out.push(rest[0]);
            at += 1;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(sql: &str) -> String {
        String::from_utf8(renamed(sql.as_bytes())).expect("UTF-8")
    }

    fn message(tag: u8, body: &[u8]) -> Vec<u8> {
        let length = u32::try_from(body.len() + 4).expect("short");
        [&[tag][..], &length.to_be_bytes(), body].concat()
    }

    #[test]
    fn the_name_alone_is_renamed() {
        assert_eq!(
            text(r#"select * from jobs.ready, "jobs"."worker""#),
            r#"select * from jobs_bench.ready, "jobs_bench"."worker""#
        );
        assert_eq!(
            text("select pg_notify('jobs', jobs.wake(queue))"),
            "select pg_notify('jobs_bench', jobs_bench.wake(queue))"
        );
        for kept in ["jobs_bench.ready", "myjobs.ready", "jobs2.x", "job_jobs", "$jobs$", "ßjobs", "jobsß"] {
            assert_eq!(text(kept), kept);
        }
    }

    #[test]
    fn messages_come_out_whole_however_they_came_in() {
        let startup = [&12_u32.to_be_bytes()[..], b"jobs.\0\0\0"].concat();
        let bytes = [
            startup.clone(),
            message(b'P', b"s1\0select jobs.x\0\0\0"),
            message(b'B', b"jobs.kept"),
            message(b'Q', b"listen jobs\0"),
            message(b'X', b""),
        ]
        .concat();
        let expected = [
            startup,
            message(b'P', b"s1\0select jobs_bench.x\0\0\0"),
            message(b'B', b"jobs.kept"),
            message(b'Q', b"listen jobs_bench\0"),
            message(b'X', b""),
        ]
        .concat();
        for size in 1..=bytes.len() {
            let mut messages = Messages::default();
            bytes.chunks(size).for_each(|chunk| messages.take(chunk));
            assert_eq!(messages.ready, expected, "in pieces of {size}");
            assert!(messages.partial.is_empty());
        }
    }
}
