//! The connections of `--listen`. Each answers one request. Clients that are slow or send too much are disconnected.
//! The number of connections is limited: a new connection closes the oldest one.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio::task::AbortHandle;

use super::Answers;
use super::answer::answer;

const MOST_CONNECTIONS: usize = 64;
/// The time for the head of a request.
const HEAD: Duration = Duration::from_secs(5);
/// The time for a request and its answer.
const WHOLE: Duration = Duration::from_secs(10);
/// The size of the head of a request, in bytes.
const LARGEST_HEAD: usize = 16 * 1024;
const MOST_HEADERS: usize = 64;

/// The connections that are open, the oldest first.
#[derive(Default)]
pub(super) struct Connections(VecDeque<AbortHandle>);

impl Connections {
    /// Answers the request of this connection. If there are too many connections, the oldest is closed: an honest
    /// client is answered within milliseconds.
    pub(super) fn serve(&mut self, stream: TcpStream, answers: Arc<Answers>) {
        self.0.retain(|open| !open.is_finished());
        while self.0.len() >= MOST_CONNECTIONS {
            if let Some(oldest) = self.0.pop_front() {
                oldest.abort();
            }
        }
        self.0.push_back(tokio::spawn(connection(stream, answers)).abort_handle());
    }
}

async fn connection(stream: TcpStream, answers: Arc<Answers>) {
    let service = service_fn(move |request| {
        let answer = answer(&request, &answers);
        async move { Ok::<_, Infallible>(answer) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .max_buf_size(LARGEST_HEAD)
        .max_headers(MOST_HEADERS)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service);
    // A client that goes away or sends no HTTP is no event for the log.
    let _ = tokio::time::timeout(WHOLE, connection).await;
}
