//! Open tabs: each reads the stream of its page, and the page after each activity, as `live.js` does.

use super::open;
use crate::http::client::request;
use crate::http::server::Server;
use std::net::TcpStream;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// How long a tab may take to hear of the load after its end. A busy machine has not told all of them by then.
const LIMIT: Duration = Duration::from_secs(60);

pub(super) struct Tabs {
    open: Vec<(TcpStream, JoinHandle<usize>)>,
    /// One message from each tab, when it hears something.
    heard: Receiver<()>,
}

impl Tabs {
    /// Opens this many tabs, which read these pages in turns.
    pub(super) fn open(server: &Server, count: usize, stream: &str, pages: &[String]) -> Self {
        let (hears, heard) = channel();
        Self { open: (0..count).map(|n| tab(server, stream, n, pages.to_vec(), hears.clone())).collect(), heard }
    }

    /// Answers how many events each got, once all have heard something.
    pub(super) fn close(self) -> Vec<usize> {
        let _all = self.open.iter().all(|_| self.heard.recv_timeout(LIMIT).is_ok());
        for (socket, _) in &self.open {
            let _ = socket.shutdown(std::net::Shutdown::Both);
        }
        self.open.into_iter().map(|(_, tab)| tab.join().unwrap()).collect()
    }
}

fn tab(
    server: &Server,
    stream: &str,
    first: usize,
    pages: Vec<String>,
    hears: Sender<()>,
) -> (TcpStream, JoinHandle<usize>) {
    let (mut events, mut connection) = (server.connect(), server.connect());
    events.send(request("GET", stream, &[], ""));
    assert_eq!(events.reply().status, 200);
    let socket = events.socket();
    let tab = std::thread::spawn(move || {
        let (mut heard, mut pages) = (0, pages.iter().cycle().skip(first));
        while let Some(chunk) = events.chunk() {
            let is_first = heard <= 1;
            heard += chunk.matches("event: ").count();
            if is_first && heard > 1 {
                let _ = hears.send(());
            }
            if chunk.contains("event: activity") {
                open(&mut connection, pages.next().unwrap());
            }
        }
        heard.saturating_sub(1)
    });
    (socket, tab)
}
