//! A pooler in transaction mode that does not know of prepared statements, as PgBouncer before 1.21: it lends a session
//! of the server for a transaction, and passes on all messages as they are. What a client has prepared stays in the
//! session, and is missing in the others.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

const VERSION_3: u32 = 196_608;
const SSL_REQUEST: u32 = 80_877_103;
const GSS_REQUEST: u32 = 80_877_104;

pub(crate) struct Pooler {
    url: String,
}

/// The sessions of the server that no transaction uses. The one that was used last is lent first.
struct Sessions {
    server: String,
    startup: Vec<u8>,
    used_from: usize,
    used: Range<usize>,
    opened: AtomicUsize,
    idle: Mutex<Vec<TcpStream>>,
    /// With these words every client is refused.
    refusal: Option<&'static str>,
}

impl Pooler {
    /// Starts a pooler for the database of this URL, with its user.
    pub(crate) fn start(url: &str) -> Self {
        Self::used(url, 0, 0..0)
    }

    /// Starts one that refuses the credentials of every client with these words, and start-up options before that.
    pub(crate) fn refusing(url: &str, refusal: &'static str) -> Self {
        Self::with(url, 0, 0..0, Some(refusal))
    }

    /// The same, and in its sessions from this one on, counted from 0, other clients have prepared statements. Their
    /// names have these numbers.
    pub(crate) fn used(url: &str, from: usize, names: Range<usize>) -> Self {
        Self::with(url, from, names, None)
    }

    fn with(url: &str, from: usize, names: Range<usize>, refusal: Option<&'static str>) -> Self {
        let (_, rest) = url.split_once("://").unwrap();
        let (user, rest) = rest.split_once('@').unwrap();
        let (server, database) = rest.split_once('/').unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let pooled = format!("postgres://{user}@{}/{database}", listener.local_addr().unwrap());
        let mut startup = VERSION_3.to_be_bytes().to_vec();
        let name = database.split('?').next().unwrap();
        for text in ["user", user, "database", name, ""] {
            startup.extend(text.bytes().chain([0]));
        }
        let startup = framed(None, &startup);
        let sessions = Arc::new(Sessions {
            server: server.to_owned(),
            startup,
            used_from: from,
            used: names,
            opened: AtomicUsize::new(0),
            idle: Mutex::default(),
            refusal,
        });
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let sessions = sessions.clone();
                std::thread::spawn(move || sessions.serve(client));
            }
        });
        Self { url: pooled }
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }
}

impl Sessions {
    /// A new session, and what the server says at its begin.
    fn open(&self) -> (TcpStream, Vec<u8>) {
        let mut server = TcpStream::connect(&self.server).unwrap();
        server.write_all(&self.startup).unwrap();
        let greeting = until_ready(&mut server);
        if self.opened.fetch_add(1, Ordering::Relaxed) >= self.used_from {
            let parse = |number| [format!("s{number}\0select\0").as_bytes(), &[0; 2]].concat();
            let parsed = self.used.clone().flat_map(|number| framed(Some(b'P'), &parse(number)));
            server.write_all(&parsed.chain(framed(Some(b'S'), &[])).collect::<Vec<_>>()).unwrap();
            until_ready(&mut server);
        }
        (server, greeting)
    }

    /// Serves a client until it ends. `None`: it has ended, or its server has.
    fn serve(&self, mut client: TcpStream) -> Option<()> {
        let parameters = loop {
            let mut start = [0; 8];
            client.read_exact(&mut start).ok()?;
            let [length, code] = [&start[..4], &start[4..]].map(|part| u32::from_be_bytes(part.try_into().unwrap()));
            let mut parameters = vec![0; length as usize - 8];
            client.read_exact(&mut parameters).ok()?;
            match code {
                SSL_REQUEST | GSS_REQUEST => client.write_all(b"N").ok()?,
                VERSION_3 => break parameters,
                // It asks for the end of a statement.
                _ => return None,
            }
        };
        if let Some(refusal) = self.refusal {
            let has_options = parameters.split(|byte| *byte == 0).any(|word| word == b"options");
            let text = if has_options { "unsupported startup parameter: options" } else { refusal };
            client.write_all(&framed(Some(b'E'), format!("SFATAL\0C08P01\0M{text}\0\0").as_bytes())).ok()?;
            return None;
        }
        let (session, greeting) = self.open();
        self.idle.lock().unwrap().insert(0, session);
        client.write_all(&greeting).ok()?;
        let mut lent: Option<TcpStream> = None;
        while let Some(asked) = message(&mut client).filter(|asked| asked[0] != b'X') {
            let mut server = lent.take().unwrap_or_else(|| self.idle.lock().unwrap().pop().unwrap());
            server.write_all(&asked).ok()?;
            // The server answers a `Sync` and a simple query, and says whether a transaction is open.
            let mut is_open = true;
            while is_open && matches!(asked[0], b'S' | b'Q') {
                let answer = message(&mut server)?;
                client.write_all(&answer).ok()?;
                if answer[0] == b'Z' {
                    is_open = answer[5] != b'I';
                    break;
                }
            }
            match is_open {
                true => lent = Some(server),
                false => self.idle.lock().unwrap().push(server),
            }
        }
        Some(())
    }
}

/// A message of this type. Only the first one of a client has none.
fn framed(kind: Option<u8>, rest: &[u8]) -> Vec<u8> {
    let length = u32::try_from(rest.len() + 4).unwrap().to_be_bytes();
    kind.into_iter().chain(length).chain(rest.iter().copied()).collect()
}

/// What the server says until it is ready for the next query.
fn until_ready(server: &mut TcpStream) -> Vec<u8> {
    let mut said = Vec::new();
    while let Some(message) = message(server) {
        said.extend(&message);
        if message[0] == b'Z' {
            break;
        }
    }
    said
}

/// Reads a message: its type, its length and the rest. `None` at the end of the stream.
fn message(from: &mut TcpStream) -> Option<Vec<u8>> {
    let mut message = vec![0; 5];
    from.read_exact(&mut message).ok()?;
    let length = u32::from_be_bytes(message[1..].try_into().unwrap());
    message.resize(length as usize + 1, 0);
    from.read_exact(&mut message[5..]).ok()?;
    Some(message)
}
