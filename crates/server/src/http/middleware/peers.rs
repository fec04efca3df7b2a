//! Limits connections per address, so that one client cannot take them all.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, PoisonError};

/// Connections by their peers' addresses.
#[derive(Debug)]
pub(crate) struct Peers {
    each_max: usize,
    counts: Mutex<HashMap<IpAddr, usize>>,
}

/// One connection of a peer, as long as it is held.
#[derive(Debug)]
pub(crate) struct PeerConnection {
    peers: Arc<Peers>,
    address: IpAddr,
}

impl Peers {
    /// With at most so many connections from one address.
    pub(crate) fn new(each_max: usize) -> Arc<Self> {
        Arc::new(Self { each_max, counts: Mutex::default() })
    }

    /// Room for one more connection; `None` if that address has as many as it may have.
    pub(crate) fn admit(self: &Arc<Self>, address: IpAddr) -> Option<PeerConnection> {
        let address = network(address);
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(address).or_default();
        if *count >= self.each_max {
            return None;
        }
        *count += 1;
        Some(PeerConnection { peers: self.clone(), address })
    }
}

impl Drop for PeerConnection {
    fn drop(&mut self) {
        let mut counts = self.peers.counts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = counts.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.address);
            }
        }
    }
}

/// The unit that counts as one address: for IPv6, the network of one household or machine.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() >> 64 << 64)),
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_no_more_than_its_seats() {
        let peers = Peers::new(2);
        let of = |text: &str| peers.admit(text.parse().unwrap());
        let (one, two) = (of("10.0.0.1"), of("::ffff:10.0.0.1"));
        assert!(one.is_some() && two.is_some() && of("10.0.0.1").is_none());
        let six = [of("2001:db8::1"), of("2001:db8::2:1")];
        assert!(six.iter().all(Option::is_some) && of("2001:db8::3").is_none() && of("2001:db8:0:1::").is_some());
        drop(one);
        assert!(of("10.0.0.1").is_some());
        drop((two, six));
        assert!(peers.counts.lock().unwrap().is_empty());
    }
}
