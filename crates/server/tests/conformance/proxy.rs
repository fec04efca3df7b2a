//! A proxy that does harm: it cuts connections, delays and truncates replies, and answers in place of the server.

use serde::Deserialize;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What happens to a request.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Harm {
    /// The connection is cut, and the server gets nothing.
    CutBefore,
    /// The connection is cut once the server has answered.
    CutAfter,
    /// The server has answered, and the answer never comes.
    Hang,
    /// The answer comes this much later.
    Late { ms: u64 },
    /// Half of the answer comes, and the connection is cut.
    Truncate,
    /// The server gets nothing, and this comes instead.
    Answer {
        status: u16,
        #[serde(default)]
        retry_after: Option<String>,
        #[serde(default)]
        html: bool,
        /// Only to requests whose body has more bytes.
        #[serde(default)]
        above: Option<usize>,
    },
}

/// A fault: what happens to the next requests of a kind.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Fault {
    /// Words of the request's first line, such as `POST /v1/reserve`.
    pub(crate) on: String,
    pub(crate) harm: Harm,
    /// To how many requests it happens; one by default.
    #[serde(default = "once")]
    pub(crate) times: usize,
}

fn once() -> usize {
    1
}

impl Fault {
    fn is_for(&self, request: &Message) -> bool {
        let is_large = match self.harm {
            Harm::Answer { above: Some(bytes), .. } => request.body.len() > bytes,
            _ => true,
        };
        is_large && request.head.starts_with(&self.on)
    }
}

pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    faults: Arc<Mutex<Vec<Fault>>>,
}

impl Proxy {
    /// Stands before this server. It may come and go.
    pub(crate) fn start(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let faults: Arc<Mutex<Vec<Fault>>> = Arc::default();
        let planned = faults.clone();
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let (client, planned) = (client.unwrap(), planned.clone());
                std::thread::spawn(move || pass(client, server, &planned));
            }
        });
        Self { address, faults }
    }

    /// From now on, this happens.
    pub(crate) fn plan(&self, faults: Vec<Fault>) {
        *self.faults.lock().unwrap() = faults;
    }

    /// The faults that have not happened.
    pub(crate) fn left(&self) -> Vec<Fault> {
        self.faults.lock().unwrap().clone()
    }
}

/// Takes the harm that is planned for a request.
fn take(faults: &Mutex<Vec<Fault>>, request: &Message) -> Option<Harm> {
    let mut faults = faults.lock().unwrap();
    let place = faults.iter().position(|fault| fault.is_for(request))?;
    let harm = faults[place].harm.clone();
    faults[place].times -= 1;
    if faults[place].times == 0 {
        faults.remove(place);
    }
    Some(harm)
}

/// A message of HTTP: its head, and its body as it came.
struct Message {
    head: String,
    body: Vec<u8>,
}

impl Message {
    /// Reads one; `None` if the connection ends before.
    fn read(stream: &mut TcpStream) -> Option<Self> {
        let (mut bytes, mut part) = (Vec::new(), [0; 16 << 10]);
        loop {
            if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
                let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
                let body = bytes.split_off(end + 4);
                return Self { head, body }.with_rest(stream);
            }
            let count = stream.read(&mut part).ok().filter(|&count| count > 0)?;
            bytes.extend_from_slice(&part[..count]);
        }
    }

    fn with_rest(mut self, stream: &mut TcpStream) -> Option<Self> {
        let mut part = [0; 16 << 10];
        while !self.is_whole() {
            if self.value("expect").is_some() {
                stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").ok()?;
                self.head = self.without("expect");
            }
            let count = stream.read(&mut part).ok().filter(|&count| count > 0)?;
            self.body.extend_from_slice(&part[..count]);
        }
        Some(self)
    }

    fn is_whole(&self) -> bool {
        match self.value("content-length") {
            Some(length) => self.body.len() >= length.parse().unwrap_or(0),
            None => self.value("transfer-encoding").is_none() || self.body.ends_with(b"0\r\n\r\n"),
        }
    }

    fn value(&self, name: &str) -> Option<&str> {
        let named = |line: &&str| line.split_once(':').is_some_and(|(found, _)| found.eq_ignore_ascii_case(name));
        Some(self.head.lines().find(named)?.split_once(':')?.1.trim())
    }

    /// The head without this field.
    fn without(&self, name: &str) -> String {
        let is_other = |line: &&str| !line.split_once(':').is_some_and(|(found, _)| found.eq_ignore_ascii_case(name));
        self.head.lines().filter(is_other).collect::<Vec<_>>().join("\r\n")
    }
}

/// Serves one connection of a client.
fn pass(mut client: TcpStream, server: SocketAddr, faults: &Mutex<Vec<Fault>>) {
    while let Some(request) = Message::read(&mut client) {
        let harm = take(faults, &request);
        if matches!(harm, Some(Harm::CutBefore)) {
            return;
        }
        if let Some(Harm::Answer { status, retry_after, html, .. }) = harm {
            if client.write_all(answer(status, retry_after.as_deref(), html).as_bytes()).is_err() {
                return;
            }
            continue;
        }
        let Ok(mut upstream) = TcpStream::connect(server) else { return };
        let head = format!("{}\r\nconnection: close\r\n\r\n", request.without("connection"));
        if upstream.write_all(head.as_bytes()).and_then(|()| upstream.write_all(&request.body)).is_err() {
            return;
        }
        if relay(&mut client, &mut upstream, harm.as_ref()).is_none() {
            return;
        }
    }
}

/// Passes on an answer; `None` if the client's connection is over.
fn relay(client: &mut TcpStream, upstream: &mut TcpStream, harm: Option<&Harm>) -> Option<()> {
    let (mut bytes, mut part) = (Vec::new(), [0; 16 << 10]);
    let end = loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break end;
        }
        let count = upstream.read(&mut part).ok().filter(|&count| count > 0)?;
        bytes.extend_from_slice(&part[..count]);
    };
    let body = bytes.split_off(end + 4);
    let answer = Message { head: String::from_utf8_lossy(&bytes[..end]).into_owned(), body };
    let is_empty = answer.head.contains(" 204 ") || answer.head.contains(" 304 ");
    if answer.value("content-length").is_none() && !is_empty {
        // A stream: it ends with its connection.
        client.write_all(format!("{}\r\n\r\n", answer.head).as_bytes()).ok()?;
        client.write_all(&answer.body).ok()?;
        let _ = std::io::copy(upstream, client);
        return None;
    }
    let answer = if is_empty { answer } else { answer.with_rest(upstream)? };
    if let Some(Harm::Late { ms }) = harm {
        std::thread::sleep(Duration::from_millis(*ms));
    }
    match harm {
        None | Some(Harm::Late { .. }) => {
            client.write_all(format!("{}\r\n\r\n", answer.without("connection")).as_bytes()).ok()?;
            client.write_all(&answer.body).ok()
        }
        Some(Harm::Truncate) => {
            client.write_all(format!("{}\r\n\r\n", answer.without("connection")).as_bytes()).ok()?;
            client.write_all(&answer.body[..answer.body.len() / 2]).ok()?;
            None
        }
        Some(Harm::Hang) => {
            // Until the client gives up.
            while client.read(&mut part).is_ok_and(|count| count > 0) {}
            None
        }
        Some(Harm::CutBefore | Harm::CutAfter | Harm::Answer { .. }) => None,
    }
}

/// An answer that is not the server's.
fn answer(status: u16, retry_after: Option<&str>, html: bool) -> String {
    let (kind, body) = if html {
        ("text/html", "<html><body><h1>Bad gateway</h1></body></html>".to_owned())
    } else {
        let code = match status {
            401 => "unauthorized",
            429 => "too_many_requests",
            _ => "stopping",
        };
        let body = format!(
            r#"{{"type":"urn:duetime:{code}","title":"t","status":{status},"code":"{code}","detail":"of the proxy"}}"#
        );
        ("application/problem+json", body)
    };
    let after = retry_after.map(|after| format!("retry-after: {after}\r\n")).unwrap_or_default();
    let length = body.len();
    format!("HTTP/1.1 {status} Said\r\ncontent-type: {kind}\r\n{after}content-length: {length}\r\n\r\n{body}")
}
