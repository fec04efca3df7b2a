//! A way to a server on which a reply can be lost.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

#[derive(Debug)]
pub(crate) struct Proxy {
    port: u16,
    to: u16,
    fault: Arc<Fault>,
}

#[derive(Debug, Default)]
struct Fault {
    is_armed: AtomicBool,
    lost: AtomicU32,
    /// What was sent for the reply that was lost.
    request: Mutex<Vec<u8>>,
}

impl Proxy {
    pub(crate) fn to(to: u16) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let port = listener.local_addr().expect("bound").port();
        let fault = Arc::new(Fault::default());
        let shared = fault.clone();
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let Ok(server) = TcpStream::connect((Ipv4Addr::LOCALHOST, to)) else { return };
                for (from, to, is_reply) in [(&client, &server, false), (&server, &client, true)] {
                    let (from, to) = (from.try_clone().expect("a socket"), to.try_clone().expect("a socket"));
                    let fault = shared.clone();
                    thread::spawn(move || fault.pump(from, to, is_reply));
                }
            }
        });
        Self { port, to, fault }
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/0", self.port)
    }

    /// The next reply is lost, with its connection.
    pub(crate) fn lose_a_reply(&self) {
        self.fault.is_armed.store(true, Ordering::SeqCst);
    }

    /// How many were lost.
    pub(crate) fn lost(&self) -> u32 {
        self.fault.lost.load(Ordering::SeqCst)
    }

    /// The request whose reply was lost reaches the server once more; what that answers.
    pub(crate) fn repeat(&self) -> String {
        let mut server = TcpStream::connect((Ipv4Addr::LOCALHOST, self.to)).expect("a server");
        server.write_all(&self.fault.request.lock().unwrap()).expect("sent");
        let mut reply = [0; 1_000];
        let length = server.read(&mut reply).expect("a reply");
        String::from_utf8_lossy(&reply[..length]).into_owned()
    }
}

impl Fault {
    fn pump(&self, mut from: TcpStream, mut to: TcpStream, is_reply: bool) {
        let mut bytes = vec![0; 64 * 1024];
        while let Ok(length @ 1..) = from.read(&mut bytes) {
            if is_reply && self.is_armed.swap(false, Ordering::SeqCst) {
                self.lost.fetch_add(1, Ordering::SeqCst);
                break;
            }
            if self.is_armed.load(Ordering::SeqCst) {
                *self.request.lock().unwrap() = bytes[..length].to_vec();
            }
            if to.write_all(&bytes[..length]).is_err() {
                break;
            }
        }
        // Where the other side has gone already there is nothing to shut.
        let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
    }
}
