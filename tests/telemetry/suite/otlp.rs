//! A receiver of OTLP over HTTP, and the client that the exporters of OpenTelemetry send with.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{Request, Response};
use opentelemetry_http::{HttpClient, HttpError};
use serde_json::Value;

/// One request: its path and its body.
type Received = Arc<Mutex<Vec<(String, Value)>>>;

/// Receives what exporters send, until the process ends.
pub(crate) struct Receiver {
    pub(crate) endpoint: String,
    received: Received,
}

impl Receiver {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let received = Received::default();
        let storing = received.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let storing = storing.clone();
                std::thread::spawn(move || {
                    let (path, body) = read(&stream);
                    storing.lock().unwrap().push((path, serde_json::from_slice(&body).unwrap()));
                    let answer = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}";
                    (&stream).write_all(answer).unwrap();
                });
            }
        });
        Self { endpoint, received }
    }

    /// All spans.
    pub(crate) fn spans(&self) -> Vec<Value> {
        self.parts("/v1/traces", "/resourceSpans", "scopeSpans", "spans")
    }

    /// All metrics.
    pub(crate) fn metrics(&self) -> Vec<Value> {
        self.parts("/v1/metrics", "/resourceMetrics", "scopeMetrics", "metrics")
    }

    fn parts(&self, path: &str, resources: &str, scopes: &str, parts: &str) -> Vec<Value> {
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let received = self.received.lock().unwrap();
        let resources = received
            .iter()
            .filter(|(of, _)| of == path)
            .flat_map(|(_, body)| list(&body.pointer(resources).unwrap().clone()));
        resources.flat_map(|resource| list(&resource[scopes])).flat_map(|scope| list(&scope[parts])).collect()
    }
}

/// Reads a request: its path and its body.
pub(crate) fn read(stream: &TcpStream) -> (String, Vec<u8>) {
    let (head, body) = read_with_head(stream);
    (head.split(' ').nth(1).unwrap().to_owned(), body)
}

/// The same, with the whole head.
pub(crate) fn read_with_head(stream: &TcpStream) -> (String, Vec<u8>) {
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert!(reader.read_line(&mut head).unwrap() > 0, "the head ends too early: {head}");
    }
    let length = head.lines().find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    reader.read_exact(&mut body).unwrap();
    (head, body)
}

/// Sends over a plain connection.
#[derive(Debug)]
pub(crate) struct Client;

#[async_trait::async_trait]
impl HttpClient for Client {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let authority = request.uri().authority().ok_or("no authority")?.as_str();
        let mut stream = TcpStream::connect(authority)?;
        let mut head = format!("POST {} HTTP/1.1\r\nhost: {authority}\r\n", request.uri().path());
        for (name, value) in request.headers() {
            head.push_str(&format!("{name}: {}\r\n", value.to_str()?));
        }
        head.push_str(&format!("content-length: {}\r\n\r\n", request.body().len()));
        stream.write_all(head.as_bytes())?;
        stream.write_all(request.body())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        Ok(Response::new(Bytes::from_static(b"{}")))
    }
}
