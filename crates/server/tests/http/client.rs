//! A connection that sends what it is given, and reads replies.

use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::TcpMaxSeg;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

/// The time limit for a reply; never reached if all is well.
const REPLY_TIME_MAX: Duration = Duration::from_secs(60);

pub(crate) struct Connection(BufReader<TcpStream>);

#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Connection {
    pub(crate) fn open(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(REPLY_TIME_MAX)).unwrap();
        stream.set_nodelay(true).unwrap();
        Self(BufReader::new(stream))
    }

    /// From an address of this machine.
    pub(crate) fn from(source: &str, address: SocketAddr) -> Self {
        Self(BufReader::new(connect_from(source, address).unwrap()))
    }

    /// Its socket, with which another thread may close it.
    pub(crate) fn socket(&self) -> TcpStream {
        self.0.get_ref().try_clone().unwrap()
    }

    /// Whether this could be sent.
    pub(crate) fn try_send(&mut self, bytes: impl AsRef<[u8]>) -> bool {
        self.0.get_mut().write_all(bytes.as_ref()).is_ok()
    }

    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.0.get_mut().write_all(bytes.as_ref()).unwrap();
    }

    pub(crate) fn shut_down_sending(&mut self) {
        self.0.get_mut().shutdown(Shutdown::Write).unwrap();
    }

    pub(crate) fn reply(&mut self) -> Reply {
        self.reply_without_end().unwrap_or_else(|| panic!("the server closed the connection"))
    }

    /// A reply, or `None` if the connection ends first.
    pub(crate) fn reply_without_end(&mut self) -> Option<Reply> {
        let status = self.line()?;
        let status = status.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or_else(|| panic!("{status}"));
        let mut headers = Vec::new();
        loop {
            let line = self.line().expect("a whole head");
            if line.is_empty() {
                break;
            }
            let (name, value) = line.split_once(':').unwrap_or_else(|| panic!("{line}"));
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        let mut reply = Reply { status, headers, body: String::new() };
        let length = reply.header("content-length").map_or(0, |length| length.parse().unwrap());
        let mut body = vec![0; length];
        self.0.read_exact(&mut body).ok()?;
        reply.body = String::from_utf8(body).unwrap();
        Some(reply)
    }

    /// The status of the next reply, without reading the rest.
    pub(crate) fn status(&mut self) -> String {
        self.line().unwrap().split(' ').nth(1).unwrap().to_owned()
    }

    /// Whether the server has closed the connection, and sent nothing before.
    pub(crate) fn is_ended(&mut self) -> bool {
        match self.0.read(&mut [0]) {
            Ok(count) => count == 0,
            Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
        }
    }

    /// The next part of a reply that comes in chunks; `None` at its end.
    pub(crate) fn chunk(&mut self) -> Option<String> {
        let length = usize::from_str_radix(&self.line()?, 16).unwrap();
        let mut chunk = vec![0; length + 2];
        self.0.read_exact(&mut chunk).unwrap();
        chunk.truncate(length);
        (length > 0).then(|| String::from_utf8(chunk).unwrap())
    }

    /// All that comes until the server ends a chunked body.
    pub(crate) fn until_closed(&mut self) -> String {
        let mut all = String::new();
        while !all.ends_with("\r\n0\r\n") {
            assert!(self.0.read_line(&mut all).unwrap() > 0, "{all}");
        }
        all
    }

    fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        match self.0.read_line(&mut line) {
            Ok(0) => None,
            Ok(_) => Some(line.trim_end_matches("\r\n").to_owned()),
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => None,
            Err(error) => panic!("no reply: {error}"),
        }
    }
}

/// Connects from an address of this machine.
pub(crate) fn connect_from(source: &str, address: SocketAddr) -> std::io::Result<TcpStream> {
    connect(tokio::net::TcpSocket::new_v4()?, source, address)
}

/// The same over a connection of which the system buffers little: small packets also keep the sender's buffer small.
pub(crate) fn connect_narrowly(source: &str, address: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = tokio::net::TcpSocket::new_v4()?;
    socket.set_recv_buffer_size(4 << 10)?;
    setsockopt(&socket, TcpMaxSeg, &536)?;
    connect(socket, source, address)
}

fn connect(socket: tokio::net::TcpSocket, source: &str, address: SocketAddr) -> std::io::Result<TcpStream> {
    socket.bind((source.parse::<std::net::Ipv4Addr>().unwrap(), 0).into())?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let stream = runtime.block_on(socket.connect(address))?.into_std()?;
    stream.set_nonblocking(false)?;
    Ok(stream)
}

impl Reply {
    pub(crate) fn headers(&self) -> impl Iterator<Item = (&str, &str)> {
        self.headers.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
    }

    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    #[track_caller]
    pub(crate) fn ok(&self) -> Value {
        self.expect(200)
    }

    #[track_caller]
    pub(crate) fn expect(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{self:?}");
        assert_eq!(self.header("content-type"), Some("application/json"));
        self.json()
    }

    /// The problem document, which must be one in every respect.
    #[track_caller]
    pub(crate) fn problem(&self, status: u16, code: &str) -> Value {
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{self:?}");
        assert_eq!(self.status, status, "{self:?}");
        let problem = self.json();
        check_problem(&problem, status, code);
        problem
    }
}

#[track_caller]
pub(crate) fn check_problem(problem: &Value, status: u16, code: &str) {
    assert_eq!(problem["code"], code, "{problem}");
    assert_eq!(problem["status"], status, "{problem}");
    assert_eq!(problem["type"], format!("urn:duetime:{code}"), "{problem}");
    for words in ["title", "detail"] {
        assert!(problem[words].as_str().is_some_and(|words| !words.is_empty()), "{problem}");
    }
}

/// The bytes of a request.
pub(crate) fn request(method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Vec<u8> {
    let mut text = format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\n");
    for (name, value) in headers {
        text += &format!("{name}: {value}\r\n");
    }
    if !body.is_empty() {
        if !headers.iter().any(|(name, _)| *name == "content-type") {
            text += "content-type: application/json\r\n";
        }
        text += &format!("content-length: {}\r\n", body.len());
    }
    (text + "\r\n" + body).into_bytes()
}
