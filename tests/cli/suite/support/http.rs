//! The client of the probes: one request per connection.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

/// The time limit of a request.
const LIMIT: Duration = Duration::from_secs(20);

#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

/// Sends these bytes and returns all that is answered.
pub(crate) fn exchange(address: &str, request: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    // The server may answer and close before it has read everything.
    let _ = stream.write_all(request);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8(answer).unwrap()
}

pub(crate) fn request(address: &str, method: &str, path: &str) -> Response {
    let answer = exchange(address, format!("{method} {path} HTTP/1.1\r\nhost: {address}\r\n\r\n").as_bytes());
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no HTTP: {answer:?}"));
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    Response { status, head: head.to_owned(), body: body.to_owned() }
}

pub(crate) fn get(address: &str, path: &str) -> Response {
    request(address, "GET", path)
}
