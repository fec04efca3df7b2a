//! Addresses as they may be shown: without what may be a password.

/// What stands in place of a secret.
const MASK: &str = "***";
/// Parameters of an address that hold no secret.
const PLAIN: [&str; 3] = ["namespace", "sslmode", "ssl-mode"];

/// An address without passwords; anything else is masked as a whole.
pub(crate) fn mask(text: &str) -> String {
    let Some((scheme, rest)) = text.split_once("://") else { return MASK.to_owned() };
    let (place, query) = rest.split_once('?').map_or((rest, None), |(place, query)| (place, Some(query)));
    // A password may hold any character: what stands before the last `@` is no host.
    let place = match place.rsplit_once('@') {
        Some((user, host)) => match user.split_once(':') {
            Some((name, _)) => format!("{name}:{MASK}@{host}"),
            None => format!("{user}@{host}"),
        },
        None => place.to_owned(),
    };
    match query {
        // What follows may still be the end of a password.
        Some(query) if query.contains('@') => format!("{scheme}://{MASK}"),
        Some(query) => format!("{scheme}://{place}?{}", query.split('&').map(parameter).collect::<Vec<_>>().join("&")),
        None => format!("{scheme}://{place}"),
    }
}

fn parameter(pair: &str) -> String {
    match pair.split_once('=') {
        Some((name, _)) if !PLAIN.contains(&name) => format!("{name}={MASK}"),
        _ => pair.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_password_is_shown() {
        for (address, shown) in [
            ("redis://127.0.0.1:6379/0?namespace=a", "redis://127.0.0.1:6379/0?namespace=a"),
            ("redis://:hush@host/1", "redis://:***@host/1"),
            ("mysql://me:hu/s@h:x@host:3306/jobs", "mysql://me:***@host:3306/jobs"),
            ("mysql://me:hu?sh@host/jobs", "mysql://***"),
            (
                "postgres://me@host/jobs?sslmode=require&password=hush",
                "postgres://me@host/jobs?sslmode=require&password=***",
            ),
            ("hush", "***"),
        ] {
            assert_eq!(mask(address), shown);
        }
    }
}
