//! The client of the probes and metrics: one request per connection.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use super::exposition::Exposition;
use super::{LIMIT, Running, until};

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
    let answer = exchange(
        address,
        format!("{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n").as_bytes(),
    );
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no HTTP: {answer:?}"));
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    Response { status, head: head.to_owned(), body: body.to_owned() }
}

pub(crate) fn get(address: &str, path: &str) -> Response {
    request(address, "GET", path)
}

/// The address in the log of a worker that was started with port 0.
pub(crate) fn address(worker: &mut Running) -> String {
    let line = worker.await_line("probes and metrics: http://");
    let (_, rest) = line.split_once("http://").unwrap();
    rest.split('/').next().unwrap().to_owned()
}

pub(crate) fn scraped(address: &str) -> Exposition {
    let response = get(address, "/metrics");
    assert_eq!(response.status, 200);
    assert!(response.head.contains("text/plain; version=0.0.4; charset=utf-8"), "{}", response.head);
    Exposition::parse(&response.body)
}

/// Waits until a worker has searched for due jobs a few more times. What it has not claimed then, it leaves alone.
pub(crate) fn await_searches(address: &str) {
    let searches =
        || scraped(address).sum("messaging_client_operation_duration_seconds_count", &[("operation", "next_due")]);
    let before = searches();
    until(|| (searches() >= before + 3.0).then_some(()).ok_or("the worker does not search for jobs"));
}
