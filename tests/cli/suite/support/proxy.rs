//! A proxy between a worker and its server. It can be cut and mended, and lead to another server.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

pub(crate) struct Proxy {
    url: String,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    cut: AtomicBool,
    open: Mutex<Vec<TcpStream>>,
    server: Mutex<String>,
}

impl Proxy {
    /// Starts a proxy to the server of this URL.
    pub(crate) fn start(url: &str) -> Self {
        let server = server_of(url);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = url.replacen(server, &listener.local_addr().unwrap().to_string(), 1);
        let shared = Arc::new(Shared { server: Mutex::new(server.to_owned()), ..Shared::default() });
        let passing = shared.clone();
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                if passing.cut.load(Ordering::Acquire) {
                    continue;
                }
                let server = passing.server.lock().unwrap().clone();
                let Ok(server) = TcpStream::connect(server) else { continue };
                let both = [(&client, &server), (&server, &client)];
                for (from, to) in both.map(|(from, to)| (from.try_clone().unwrap(), to.try_clone().unwrap())) {
                    std::thread::spawn(move || pass(from, to));
                }
                passing.open.lock().unwrap().extend([client, server]);
            }
        });
        Self { url, shared }
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Connects new clients to the server of this URL. Connections that are open stay where they are.
    pub(crate) fn lead_to(&self, url: &str) {
        server_of(url).clone_into(&mut self.shared.server.lock().unwrap());
    }

    /// Cuts all connections, and accepts no new ones.
    pub(crate) fn cut(&self) {
        self.shared.cut.store(true, Ordering::Release);
        for stream in self.shared.open.lock().unwrap().drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    pub(crate) fn mend(&self) {
        self.shared.cut.store(false, Ordering::Release);
    }
}

/// The host and port in a URL.
fn server_of(url: &str) -> &str {
    let (_, rest) = url.split_once('@').unwrap();
    rest.split_once('/').unwrap().0
}

fn pass(mut from: TcpStream, mut to: TcpStream) {
    let mut bytes = [0; 8192];
    while let Ok(read @ 1..) = from.read(&mut bytes) {
        if to.write_all(&bytes[..read]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
}
