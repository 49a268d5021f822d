//! A proxy between a worker and its server, that can be cut and mended.

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
}

impl Proxy {
    /// Starts a proxy to the server of this URL.
    pub(crate) fn start(url: &str) -> Self {
        let (scheme, rest) = url.split_once("://").unwrap();
        let (authority, path) = rest.split_once('/').unwrap();
        let (user, server) = authority.rsplit_once('@').unwrap();
        let server = server.to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("{scheme}://{user}@{}/{path}", listener.local_addr().unwrap());
        let shared = Arc::<Shared>::default();
        let passing = shared.clone();
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                if passing.cut.load(Ordering::Acquire) {
                    continue;
                }
                let server = TcpStream::connect(&server).unwrap();
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

fn pass(mut from: TcpStream, mut to: TcpStream) {
    let mut bytes = [0; 8192];
    while let Ok(read @ 1..) = from.read(&mut bytes) {
        if to.write_all(&bytes[..read]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
}
