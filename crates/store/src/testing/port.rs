//! Ports of 127.0.0.1, each reserved by one test.

use std::hash::{BuildHasher as _, RandomState};
use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::ops::Range;

/// Below the system's ephemeral ports, so that no client gets the port of a server that is down.
const PORTS: Range<u16> = 10_000..20_000;

/// The offset from a port to that of its cluster bus.
const BUS_OFFSET: u16 = 10_000;

/// A reserved port, even while nobody listens on it.
#[derive(Debug)]
pub(super) struct Port {
    number: u16,
    /// The UDP port of the same number, which none of these servers uses. Binding it reserves the port against other tests,
    /// including those of other processes. It is released however this process ends.
    _held: UdpSocket,
}

impl Port {
    /// Reserves a free port whose bus port is free, too.
    pub(super) fn free() -> Self {
        let size = usize::from(PORTS.end - PORTS.start);
        // The remainder is below `size`.
        let first = (RandomState::new().hash_one(()) % size as u64) as usize;
        PORTS.cycle().skip(first).take(size).find_map(Self::hold).expect("a free port")
    }

    fn hold(number: u16) -> Option<Self> {
        let held = UdpSocket::bind((Ipv4Addr::LOCALHOST, number)).ok()?;
        let is_free = |port: u16| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok();
        (is_free(number) && is_free(number + BUS_OFFSET)).then_some(Self { number, _held: held })
    }

    pub(super) fn number(&self) -> u16 {
        self.number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_has_one_holder() {
        let port = Port::free();
        assert!(Port::hold(port.number()).is_none());
        let number = port.number();
        drop(port);
        assert!(Port::hold(number).is_some());
    }

    #[test]
    fn a_port_that_somebody_listens_on_is_not_taken() {
        let port = Port::free();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port.number())).unwrap();
        let number = port.number();
        drop(port);
        assert!(Port::hold(number).is_none());
        drop(listener);
    }
}
