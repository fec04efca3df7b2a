//! A server that gives prepared answers, and keeps the requests.

use serde_json::Value;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// Status and body.
pub(crate) struct Answer(pub(crate) u16, pub(crate) Value);

pub(crate) struct Stub {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Stub {
    /// Answers this many requests, each on its own connection; to further ones with 418.
    pub(crate) fn start(answers: Vec<Answer>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let requests: Arc<Mutex<Vec<String>>> = Arc::default();
        let kept = requests.clone();
        std::thread::spawn(move || {
            let mut answers = answers.into_iter();
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                kept.lock().unwrap().push(request(&mut stream));
                let Answer(status, body) = answers.next().unwrap_or(Answer(418, Value::Null));
                let (body, length) = (body.to_string(), body.to_string().len());
                let head = format!("HTTP/1.1 {status} Said\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n");
                // A client that does not wait for the answer has gone.
                let _ = stream.write_all((head + &body).as_bytes());
            }
        });
        Self { address, requests }
    }

    pub(crate) fn address(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

/// Reads one with its body.
fn request(stream: &mut TcpStream) -> String {
    let (mut bytes, mut part) = (Vec::new(), [0; 1_024]);
    loop {
        let count = stream.read(&mut part).unwrap();
        assert!(count > 0, "cut off: {:?}", String::from_utf8_lossy(&bytes));
        bytes.extend_from_slice(&part[..count]);
        let text = String::from_utf8_lossy(&bytes);
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let head = head.to_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap_or("0");
        if body.len() >= length.parse().unwrap() {
            return text.into_owned();
        }
    }
}
