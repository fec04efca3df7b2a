//! Server addresses as shown in messages, and advice if nothing answers.

/// A URL without user and password.
pub(crate) fn masked(url: &str) -> String {
    // No known parameter holds a secret, but an unknown one may.
    let is_known = |pair: &str| ["namespace=", "partitions="].iter().any(|name| pair.starts_with(name));
    let place = match url.rsplit_once('?') {
        Some((_, query)) if query.split('&').all(is_known) => url,
        Some((place, _)) => place,
        None => url,
    };
    match (place.split_once("://"), place.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, rest))) => format!("{scheme}://…@{rest}"),
        // A password that contains a `?`.
        (Some((scheme, _)), None) if url.contains('@') => format!("{scheme}://…"),
        (Some(_), None) => place.to_owned(),
        // This could be anything, including a password.
        (None, _) => "…".to_owned(),
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_secret_is_shown() {
        for (url, shown) in [
            ("redis://me:secret@db:7000/3?namespace=shop", "redis://…@db:7000/3?namespace=shop"),
            ("redis://me:se?cr@et@db/3", "redis://…"),
            ("mysql://db/jobs?password=secret", "mysql://db/jobs"),
            ("secret", "…"),
        ] {
            assert_eq!(masked(url), shown);
        }
    }
}
