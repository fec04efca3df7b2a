//! Open tabs: each reads the stream of its page, and the page after each activity, as `live.js` does.

use super::open;
use crate::http::client::request;
use crate::http::server::Server;
use std::net::TcpStream;
use std::thread::JoinHandle;

pub(super) struct Tabs(Vec<(TcpStream, JoinHandle<usize>)>);

impl Tabs {
    /// Opens this many tabs, which read these pages in turns.
    pub(super) fn open(server: &Server, count: usize, stream: &str, pages: &[String]) -> Self {
        Self((0..count).map(|n| tab(server, stream, n, pages.to_vec())).collect())
    }

    /// Answers how many events each got.
    pub(super) fn close(self) -> Vec<usize> {
        for (socket, _) in &self.0 {
            let _ = socket.shutdown(std::net::Shutdown::Both);
        }
        self.0.into_iter().map(|(_, tab)| tab.join().unwrap()).collect()
    }
}

fn tab(server: &Server, stream: &str, first: usize, pages: Vec<String>) -> (TcpStream, JoinHandle<usize>) {
    let (mut events, mut connection) = (server.connect(), server.connect());
    events.send(request("GET", stream, &[], ""));
    assert_eq!(events.reply().status, 200);
    let socket = events.socket();
    let tab = std::thread::spawn(move || {
        let (mut heard, mut pages) = (0, pages.iter().cycle().skip(first));
        while let Some(chunk) = events.chunk() {
            heard += chunk.matches("event: ").count();
            if chunk.contains("event: activity") {
                open(&mut connection, pages.next().unwrap());
            }
        }
        heard.saturating_sub(1)
    });
    (socket, tab)
}
