//! The boundaries and the first strings of PostgreSQL's messages. That is enough to match replies with statements.

use std::io::{Error, ErrorKind, Result};

use tokio::io::{AsyncRead, AsyncReadExt as _};

/// A longer message is not of this protocol.
const LONGEST: usize = 64 << 20;

/// One message, as received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    bytes: Vec<u8>,
}

/// The first message of a connection.
pub(crate) enum Opening {
    /// A request for encryption. The reply is one byte.
    Encryption,
    /// A request, on a connection of its own, to cancel the statement of another session.
    Cancel(Vec<u8>),
    /// The start of a session.
    Startup(Vec<u8>),
}

impl Frame {
    /// Returns the next message, or `None` at the end of the stream.
    pub(crate) async fn read(from: &mut (impl AsyncRead + Unpin)) -> Result<Option<Self>> {
        let mut head = [0; 5];
        if from.read(&mut head[..1]).await? == 0 {
            return Ok(None);
        }
        from.read_exact(&mut head[1..]).await?;
        let mut bytes = head.to_vec();
        bytes.resize(1 + length([head[1], head[2], head[3], head[4]], 4)?, 0);
        from.read_exact(&mut bytes[5..]).await?;
        Ok(Some(Self { bytes }))
    }

    /// Its first byte, the message type.
    pub(crate) fn kind(&self) -> u8 {
        self.bytes[0]
    }

    /// The whole message.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The strings at its beginning. Each ends with a zero byte.
    pub(crate) fn words(&self) -> impl Iterator<Item = &[u8]> {
        self.bytes[5..].split(|byte| *byte == 0)
    }

    /// The first string, as text.
    pub(crate) fn text(&self) -> String {
        self.words().next().map(|word| String::from_utf8_lossy(word).into_owned()).unwrap_or_default()
    }

    /// Returns the message with `to` in place of each `from`. Returns `None` if it is neither a query nor a `Parse`, or
    /// if `from` does not occur.
    pub(crate) fn reworded(&self, from: &str, to: &str) -> Option<Self> {
        if !matches!(self.kind(), b'P' | b'Q') {
            return None;
        }
        let (mut body, mut rest, mut found) = (Vec::with_capacity(self.bytes.len()), &self.bytes[5..], false);
        while let Some(place) = rest.windows(from.len()).position(|text| text == from.as_bytes()) {
            body.extend([&rest[..place], to.as_bytes()].concat());
            (rest, found) = (&rest[place + from.len()..], true);
        }
        if !found {
            return None;
        }
        body.extend(rest);
        Some(Self::new(self.kind(), &body))
    }

    pub(crate) fn new(kind: u8, body: &[u8]) -> Self {
        // Each body comes from a message whose length fitted into four bytes.
        let length = u32::try_from(body.len() + 4).unwrap_or(u32::MAX).to_be_bytes();
        Self { bytes: [&[kind], &length[..], body].concat() }
    }
}

impl Opening {
    /// Reads the first message of a connection, which has no type byte.
    pub(crate) async fn read(from: &mut (impl AsyncRead + Unpin)) -> Result<Self> {
        const CANCEL: u32 = 80_877_102;
        const TLS: u32 = 80_877_103;
        const GSS: u32 = 80_877_104;
        let mut head = [0; 8];
        from.read_exact(&mut head).await?;
        let mut bytes = head.to_vec();
        bytes.resize(length([head[0], head[1], head[2], head[3]], 8)?, 0);
        from.read_exact(&mut bytes[8..]).await?;
        Ok(match u32::from_be_bytes([head[4], head[5], head[6], head[7]]) {
            TLS | GSS => Self::Encryption,
            CANCEL => Self::Cancel(bytes),
            _ => Self::Startup(bytes),
        })
    }
}

fn length(bytes: [u8; 4], least: usize) -> Result<usize> {
    let length = usize::try_from(u32::from_be_bytes(bytes)).unwrap_or(usize::MAX);
    if (least..=LONGEST).contains(&length) {
        return Ok(length);
    }
    Err(Error::new(ErrorKind::InvalidData, format!("a message of {length} bytes is not PostgreSQL's")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn messages_are_cut_at_their_edges() {
        let (first, second) = (Frame::new(b'Q', b"select 1\0"), Frame::new(b'Z', b"I"));
        let stream = [first.bytes(), second.bytes()].concat();
        let mut rest = stream.as_slice();
        assert_eq!(Frame::read(&mut rest).await.unwrap(), Some(first.clone()));
        assert_eq!(Frame::read(&mut rest).await.unwrap(), Some(second));
        assert_eq!(Frame::read(&mut rest).await.unwrap(), None);
        assert_eq!(first.text(), "select 1");
        assert_eq!(first.reworded("select", "table"), Some(Frame::new(b'Q', b"table 1\0")));
        assert_eq!(first.reworded("insert", "table"), None);
        assert!(Frame::read(&mut &stream[..4]).await.is_err(), "half a message");
        assert!(Frame::read(&mut &b"Q\xff\xff\xff\xff"[..]).await.is_err(), "no length of a message");
    }
}
