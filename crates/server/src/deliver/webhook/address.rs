//! Which addresses may be delivered to. An address is judged by itself and by the IPv4 address within it, to which mapped,
//! translated and tunnelled forms lead; the stricter of the two holds. Names are judged by what they resolve to, in the resolver.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The addresses that the operator allows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rules {
    /// Also loopback and private networks, and to these without TLS.
    pub(crate) allow_private: bool,
}

/// Addresses that a connection may lead to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reach {
    pub(super) public: bool,
    pub(super) private: bool,
}

impl Rules {
    /// With TLS: public addresses and those allowed besides. Without TLS: only the latter.
    pub(super) fn reach(self, is_plain: bool) -> Reach {
        Reach { public: !is_plain, private: self.allow_private }
    }
}

/// An address that is not delivered to.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("refused: {address} is {class}; {instead}")]
pub(crate) struct Refused {
    address: IpAddr,
    class: &'static str,
    instead: &'static str,
}

/// The class of an address, from the least to the most restricted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Class {
    Public,
    Private(&'static str),
    /// Nobody's endpoint, or that of a cloud's secrets.
    Never(&'static str),
}

impl Reach {
    /// Whether this address may be connected to.
    pub(super) fn check(self, address: IpAddr) -> Result<(), Refused> {
        let refused = |class, instead| Err(Refused { address, class, instead });
        match class_of(address) {
            Class::Public if self.public => Ok(()),
            Class::Private(_) if self.private => Ok(()),
            Class::Public => refused("a public address", "over plain http, only private addresses are allowed"),
            Class::Private(class) => refused(class, "deliveries to it need --webhook-allow-private"),
            Class::Never(class) => refused(class, "deliveries to such addresses are never allowed"),
        }
    }
}

fn class_of(address: IpAddr) -> Class {
    match address {
        IpAddr::V4(address) => class_of_v4(address),
        IpAddr::V6(address) => class_of_v6(address),
    }
}

/// Metadata services of clouds outside the link-local addresses: Alibaba's, and Azure's, which looks public.
const METADATA: [Ipv4Addr; 2] = [Ipv4Addr::new(100, 100, 100, 200), Ipv4Addr::new(168, 63, 129, 16)];
const OF_METADATA: &str = "the metadata address of a cloud";

/// By IANA's registry of special purposes.
fn class_of_v4(address: Ipv4Addr) -> Class {
    let [a, b, c, _] = address.octets();
    if METADATA.contains(&address) {
        return Class::Never(OF_METADATA);
    }
    match (a, b, c) {
        (0, ..) => Class::Never("an address of \"this network\""),
        (127, ..) => Class::Private("a loopback address"),
        (10, ..) | (172, 16..=31, _) | (192, 168, _) => Class::Private("a private address"),
        (100, 64..=127, _) => Class::Private("a shared address"),
        (169, 254, _) => Class::Never("a link-local address"),
        (192, 0, 0) | (192, 88, 99) => Class::Never("an address for protocols"),
        (192, 0, 2) | (198, 51, 100) | (203, 0, 113) => Class::Never("an address for documentation"),
        (198, 18..=19, _) => Class::Never("an address for measurements"),
        (224..=239, ..) => Class::Never("a multicast address"),
        (240.., ..) => Class::Never("a reserved address"),
        _ => Class::Public,
    }
}

fn class_of_v6(address: Ipv6Addr) -> Class {
    if address == Ipv6Addr::LOCALHOST {
        return Class::Private("a loopback address");
    }
    match within(address) {
        None => class_of_network(address),
        Some(Within { address: inner, is_all: true }) => class_of_v4(inner),
        Some(Within { address: inner, is_all: false }) => class_of_v4(inner).max(class_of_network(address)),
    }
}

fn class_of_network(address: Ipv6Addr) -> Class {
    match address.segments() {
        // Amazon, Google, Scaleway: the same as 169.254.169.254.
        [0xfd00, 0xec2, ..] | [0xfd20, 0xce, ..] | [0xfd00, 0x42, ..] => Class::Never(OF_METADATA),
        [0xfc00..=0xfdff, ..] => Class::Private("a private address"),
        [0xfe80..=0xfebf, ..] => Class::Never("a link-local address"),
        [0xff00..=0xffff, ..] => Class::Never("a multicast address"),
        [0x2001, 0..=0x1ff, ..] => Class::Never("an address for protocols"),
        [0x2001, 0xdb8, ..] | [0x3fff, 0..=0xfff, ..] => Class::Never("an address for documentation"),
        [0x2000..=0x3fff, ..] => Class::Public,
        _ => Class::Never("a reserved address"),
    }
}

/// An IPv4 address within one of IPv6.
struct Within {
    address: Ipv4Addr,
    /// Whether the rest says nothing of where it leads.
    is_all: bool,
}

/// The IPv4 address that this one leads to.
fn within(address: Ipv6Addr) -> Option<Within> {
    let of = |high: u16, low: u16, is_all| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        Some(Within { address: Ipv4Addr::new(a, b, c, d), is_all })
    };
    match address.segments() {
        // Mapped, translated (SIIT), and translated by NAT64.
        [0, 0, 0, 0, 0, 0xffff, high, low]
        | [0, 0, 0, 0, 0xffff, 0, high, low]
        | [0x64, 0xff9b, 0, 0, 0, 0, high, low]
        // Compatible; and 6to4.
        | [0, 0, 0, 0, 0, 0, high, low]
        | [0x2002, high, low, ..] => of(high, low, true),
        // ISATAP, in any network.
        [_, _, _, _, 0 | 0x200, 0x5efe, high, low] => of(high, low, false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PUBLIC: Reach = Reach { public: true, private: false };
    const BOTH: Reach = Reach { public: true, private: true };
    const PLAIN: Reach = Reach { public: false, private: true };

    fn is_allowed(reach: Reach, address: &str) -> bool {
        reach.check(address.parse().unwrap()).is_ok()
    }

    #[test]
    fn public_addresses_are_delivered_to() {
        for address in [
            "1.1.1.1",
            "8.8.8.8",
            "100.63.255.255",
            "100.128.0.0",
            "172.15.0.1",
            "172.32.0.1",
            "192.0.1.1",
            "198.17.0.1",
            "198.20.0.1",
            "169.253.0.1",
            "223.255.255.255",
            "2606:4700::1111",
            "2a00::1",
            "2001:4860::8888",
            "::ffff:8.8.8.8",
            "64:ff9b::8.8.8.8",
            "2002:808:808::1",
            "2606:4700::5efe:8.8.8.8",
            "168.63.129.17",
        ] {
            assert!(is_allowed(PUBLIC, address) && is_allowed(BOTH, address), "{address}");
            assert!(!is_allowed(PLAIN, address), "{address}: not without TLS");
        }
    }

    #[test]
    fn private_ones_only_where_they_are_allowed() {
        for address in [
            "127.0.0.1",
            "127.255.255.254",
            "10.0.0.1",
            "10.255.255.255",
            "172.16.0.1",
            "172.31.255.255",
            "192.168.0.1",
            "100.64.0.1",
            "100.127.255.255",
            "::1",
            "fc00::1",
            "fdff::1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "::ffff:0:192.168.1.1",
            "64:ff9b::10.0.0.1",
            "64:ff9b::127.0.0.1",
            "::127.0.0.1",
            "2002:7f00:1::",
            "2002:a00:1::5",
            "fd00::5efe:8.8.8.8",
            "fd00:1:2:3:200:5efe:1.1.1.1",
            "fc00::5efe:10.0.0.1",
            "2606:4700::5efe:10.0.0.1",
            "2606:4700::200:5efe:127.0.0.1",
        ] {
            assert!(!is_allowed(PUBLIC, address), "{address}");
            assert!(is_allowed(BOTH, address) && is_allowed(PLAIN, address), "{address}");
        }
    }

    #[test]
    fn some_are_never_delivered_to() {
        for address in [
            "0.0.0.0",
            "0.1.2.3",
            "169.254.169.254",
            "169.254.0.1",
            "192.0.0.1",
            "192.0.2.1",
            "192.88.99.1",
            "198.18.0.1",
            "198.19.255.255",
            "198.51.100.1",
            "203.0.113.1",
            "224.0.0.1",
            "239.1.1.1",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "fe80::1",
            "febf::1",
            "fec0::1",
            "ff02::1",
            "100::1",
            "2001::1",
            "2001:db8::1",
            "3fff::1",
            "5f00::1",
            "4000::1",
            "64:ff9b:1::1",
            "::ffff:169.254.169.254",
            "64:ff9b::169.254.169.254",
            "::ffff:0.0.0.0",
            "2002:a9fe:a9fe::1",
            "fd00::5efe:169.254.169.254",
            "fe80::5efe:8.8.8.8",
            "fe80::200:5efe:10.0.0.1",
            "ff02::5efe:8.8.8.8",
            "2001:db8::5efe:8.8.8.8",
            "fd00:ec2::254",
            "fd00:ec2::5efe:8.8.8.8",
            "fd20:ce::254",
            "fd00:42::42",
            "100.100.100.200",
            "::ffff:100.100.100.200",
            "64:ff9b::100.100.100.200",
            "2002:6464:64c8::1",
            "2606:4700::5efe:100.100.100.200",
            "168.63.129.16",
            "169.254.170.2",
            "192.0.0.192",
        ] {
            assert!(!is_allowed(PUBLIC, address) && !is_allowed(BOTH, address), "{address}");
            assert!(!is_allowed(PLAIN, address), "{address}");
        }
    }

    #[test]
    fn a_refusal_says_why() {
        let refused = PUBLIC.check("10.0.0.1".parse().unwrap()).unwrap_err().to_string();
        assert!(
            refused.starts_with("refused: 10.0.0.1 is a private address")
                && refused.contains("--webhook-allow-private")
        );
        let refused = PLAIN.check("8.8.8.8".parse().unwrap()).unwrap_err().to_string();
        assert!(refused.contains("over plain http, only private"), "{refused}");
    }
}
