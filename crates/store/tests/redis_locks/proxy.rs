//! A way to a server on which a reply can be lost.

use duetime_store::testing::{Command, End, Fate, Proxy};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

#[derive(Debug)]
pub(crate) struct Lossy {
    proxy: Proxy,
    fault: Arc<Fault>,
}

#[derive(Debug, Default)]
struct Fault {
    is_armed: AtomicBool,
    lost: AtomicU32,
    /// The request whose reply was lost.
    request: Mutex<Vec<u8>>,
}

impl Lossy {
    pub(crate) fn to(to: u16) -> Self {
        let fault = Arc::new(Fault::default());
        let judge = fault.clone();
        Self { proxy: Proxy::to(to, move |command| judge.judge(command)), fault }
    }

    pub(crate) fn url(&self) -> String {
        self.proxy.url()
    }

    /// The next reply is lost, with its connection.
    pub(crate) fn lose_a_reply(&self) {
        self.fault.is_armed.store(true, Ordering::SeqCst);
    }

    /// The number of lost replies.
    pub(crate) fn lost(&self) -> u32 {
        self.fault.lost.load(Ordering::SeqCst)
    }

    /// The request whose reply was lost reaches the server once more; returns that answer.
    pub(crate) async fn repeat(&self) -> String {
        let request = self.fault.request.lock().unwrap().clone();
        String::from_utf8_lossy(&self.proxy.send(&request).await.expect("a reply")).into_owned()
    }
}

impl Fault {
    fn judge(&self, command: &Command<'_>) -> Fate {
        if !self.is_armed.swap(false, Ordering::SeqCst) {
            return Fate::default();
        }
        self.lost.fetch_add(1, Ordering::SeqCst);
        *self.request.lock().unwrap() = command.bytes.to_vec();
        Fate { end: End::ReplyLost, ..Fate::default() }
    }
}
