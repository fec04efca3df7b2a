//! Advice if a server does not answer.

/// The message for a failed connection, with advice.
pub(crate) fn advised(said: String) -> String {
    let has = |words: &str| said.contains(words);
    let advice = if has("Connection refused") {
        "nothing listens there: start the server, or check host and port"
    } else if has("Name or service not known") || has("No address associated") || has("Temporary failure in name") {
        "check the host name"
    } else if has("No route to host") || has("Network is unreachable") {
        "check the host name and the network"
    } else {
        return said;
    };
    format!("{said} ({advice})")
}
