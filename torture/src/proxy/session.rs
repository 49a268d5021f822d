//! One client's connection through the proxy: a loop for each direction, and the state of the session, which both
//! share.

use std::io::Result;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

use super::faults::{Direction, Faults, Way};
use super::frames::{Frame, Opening};
use super::script::Script;

type SharedScript = Mutex<Script>;

/// Serves one client until either side ends, or until the proxy closes the connection.
pub(crate) async fn serve(client: TcpStream, upstream: u16, faults: Arc<Faults>) {
    let mut cuts = faults.cuts().subscribe();
    let cut = async {
        // An error means that the proxy was dropped. Then its sessions end, too.
        let _ = cuts.changed().await;
    };
    tokio::select! {
        // Sessions end with an error or without one, because either side may close its end at any time.
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

/// From the client to the server, unit by unit. So the server has not begun a unit that is held back.
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
            // The unit is dropped, and the connection is closed.
            Some(unit) if faults.strike(Way::There, &unit) => return Ok(()),
            Some(unit) => faults.pass(&unit).await,
            // Flush, copied data and the end are sent on at once: no sync follows.
            None if matches!(frame.kind(), b'H' | b'd' | b'c' | b'f' | b'X' | b'p') => {}
            None => continue,
        }
        faults.wait(Direction::ToServer).await;
        to.write_all(&std::mem::take(&mut open)).await?;
    }
    Ok(())
}

/// From the server to the client. A reply that may be dropped is kept until its end, because only then it is known
/// whether the statement changed something.
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
                    // The reply is dropped, and the connection is closed.
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

/// Whether the message completes a statement that changed something. A statement that moved no rows did not, and a
/// commit that rolled back did not.
fn did_something(frame: &Frame) -> bool {
    const COMPLETE: u8 = b'C';
    frame.kind() == COMPLETE && {
        let tag = frame.text();
        tag != "ROLLBACK" && !tag.ends_with(" 0")
    }
}

/// Whether the session is outside of a transaction, so that the statement is committed.
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
