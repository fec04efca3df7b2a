//! Ports of addresses.

/// What to add to "a port" in the refusal of an address whose port is too large.
pub(crate) fn port_bound(address: &str) -> &'static str {
    let port = address.rsplit_once(':').map_or("", |(_, port)| port);
    let is_number = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    if is_number && port.parse::<u16>().is_err() { " of at most 65535" } else { "" }
}
