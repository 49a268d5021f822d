//! One client's connection through the proxy: two pumps that share what is known of the session.

use std::io::Result;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

use super::faults::{Direction, Faults, Way};
use super::frames::{Frame, Opening};
use super::script::Script;

type SharedScript = Mutex<Script>;

/// Serves one client to the end of either side, or until it is cut.
pub(crate) async fn serve(client: TcpStream, upstream: u16, faults: Arc<Faults>) {
    let mut cuts = faults.cuts().subscribe();
    let cut = async {
        // An error means that the proxy is gone, and its sessions with it.
        let _ = cuts.changed().await;
    };
    tokio::select! {
        // Either side may hang up at any time: that is how sessions end.
        _ = relay(client, upstream, &faults) => {}
        () = cut => {}
    }
}

async fn relay(mut client: TcpStream, upstream: u16, faults: &Faults) -> Result<()> {
    client.set_nodelay(true)?;
    let startup = loop {
        match Opening::read(&mut client).await? {
            Opening::Encryption => client.write_all(b"N").await?,
            Opening::Cancel(request) => {
                faults.wait(Direction::ToServer).await;
                let mut server = TcpStream::connect(("127.0.0.1", upstream)).await?;
                server.write_all(&request).await?;
                return server.read_to_end(&mut Vec::new()).await.map(drop);
            }
            Opening::Startup(startup) => break startup,
        }
    };
    faults.wait(Direction::ToServer).await;
    let mut server = TcpStream::connect(("127.0.0.1", upstream)).await.inspect_err(|_| faults.refused())?;
    server.set_nodelay(true)?;
    server.write_all(&startup).await?;
    let script = SharedScript::default();
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    tokio::select! {
        ended = requests(BufReader::new(from_client), to_server, &script, faults) => ended,
        ended = replies(BufReader::new(from_server), to_client, &script, faults) => ended,
    }
}

/// Client to server, unit by unit, so that one that is held has not begun.
async fn requests(
    mut from: BufReader<OwnedReadHalf>,
    mut to: OwnedWriteHalf,
    script: &SharedScript,
    faults: &Faults,
) -> Result<()> {
    let mut open = Vec::new();
    while let Some(frame) = Frame::read(&mut from).await? {
        open.extend_from_slice(faults.worded(frame.clone()).bytes());
        let closed = script.lock().unwrap_or_else(PoisonError::into_inner).sent(&frame);
        match closed {
            // Lost, and the line with it.
            Some(unit) if faults.strike(Way::There, &unit) => return Ok(()),
            Some(unit) => faults.pass(&unit).await,
            // Flush, copied data, the end: nothing waits for a sync.
            None if matches!(frame.kind(), b'H' | b'd' | b'c' | b'f' | b'X' | b'p') => {}
            None => continue,
        }
        faults.wait(Direction::ToServer).await;
        to.write_all(&std::mem::take(&mut open)).await?;
    }
    Ok(())
}

/// Server to client. A reply that may be lost is kept until its end, when it is known what the statement did.
async fn replies(
    mut from: BufReader<OwnedReadHalf>,
    mut to: OwnedWriteHalf,
    script: &SharedScript,
    faults: &Faults,
) -> Result<()> {
    const NOTIFICATION: u8 = b'A';
    const READY: u8 = b'Z';
    const ERROR: u8 = b'E';
    let mut kept = Vec::new();
    let mut effective = false;
    while let Some(frame) = Frame::read(&mut from).await? {
        if frame.kind() == NOTIFICATION && faults.weather().borrow().mute {
            continue;
        }
        if frame.kind() == ERROR {
            faults.refused();
        }
        kept.extend_from_slice(frame.bytes());
        let unit = script.lock().unwrap_or_else(PoisonError::into_inner).answering().to_vec();
        effective |= did_something(&frame);
        if frame.kind() == READY {
            script.lock().unwrap_or_else(PoisonError::into_inner).answered();
            if std::mem::take(&mut effective) && outside_of_a_transaction(&frame) {
                if faults.strike(Way::Back, &unit) {
                    // Lost, and the line with it.
                    return Ok(());
                }
                if faults.strike(Way::LastWord, &unit) {
                    kept.truncate(kept.len() - frame.bytes().len());
                    return to.write_all(&kept).await;
                }
            }
        } else if faults.concerns(&unit) || !from.buffer().is_empty() {
            continue;
        }
        faults.wait(Direction::ToClient).await;
        to.write_all(&std::mem::take(&mut kept)).await?;
    }
    Ok(())
}

/// Whether a statement is complete that changed something: not one that moved no rows, and no commit that rolled back.
fn did_something(frame: &Frame) -> bool {
    const COMPLETE: u8 = b'C';
    frame.kind() == COMPLETE && {
        let tag = frame.text();
        tag != "ROLLBACK" && !tag.ends_with(" 0")
    }
}

/// Whether what was done is committed: a statement inside a transaction is not, whatever it moved.
fn outside_of_a_transaction(ready: &Frame) -> bool {
    ready.bytes().last() == Some(&b'I')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_that_tell_of_nothing_are_not_worth_losing() {
        let complete = |tag: &str| did_something(&Frame::new(b'C', format!("{tag}\0").as_bytes()));
        assert!(complete("COMMIT") && complete("INSERT 0 5") && complete("SELECT 1"));
        assert!(!complete("ROLLBACK") && !complete("INSERT 0 0"));
        assert!(!did_something(&Frame::new(b'Z', b"I")));
        assert!(
            outside_of_a_transaction(&Frame::new(b'Z', b"I")) && !outside_of_a_transaction(&Frame::new(b'Z', b"T"))
        );
    }
}
