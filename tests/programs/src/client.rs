//! An HTTP client with one connection, which is kept open for all its requests.

use http_body_util::{BodyExt as _, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::{Method, Request, StatusCode, header};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;

/// A client of one server.
#[derive(Debug)]
pub struct Client {
    sender: SendRequest<Full<Bytes>>,
    address: String,
}

impl Client {
    /// Connects to a server at `host:port`.
    pub async fn connect(address: &str) -> Self {
        let stream = TcpStream::connect(address).await.unwrap();
        let (sender, connection) = handshake(TokioIo::new(stream)).await.unwrap();
        // The task ends when the sender is dropped.
        tokio::spawn(connection);
        Self { sender, address: address.to_owned() }
    }

    /// Sends a GET. Returns the status and the JSON of the answer, or null if it is not JSON.
    pub async fn get(&mut self, path: &str) -> (StatusCode, Value) {
        self.send(Method::GET, path, Bytes::new()).await
    }

    /// Sends a POST with a text, which should be JSON. Returns the same.
    pub async fn post(&mut self, path: &str, body: impl ToString) -> (StatusCode, Value) {
        self.send(Method::POST, path, body.to_string().into()).await
    }

    async fn send(&mut self, method: Method, path: &str, body: Bytes) -> (StatusCode, Value) {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::HOST, &self.address)
            .header(header::CONTENT_TYPE, "application/json")
            .body(Full::new(body))
            .unwrap();
        let response = self.sender.send_request(request).await.unwrap();
        let status = response.status();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (status, serde_json::from_slice(&body).unwrap_or(Value::Null))
    }
}
