//! Our own messages for errors in TOML files, instead of those of the libraries that read them.

/// Rewrites a message of `toml` or serde.
pub(crate) fn said(message: &str) -> String {
    let quoted = |at: usize| message.split('`').nth(at).unwrap_or_default();
    if message.starts_with("unknown field ") {
        let known: Vec<_> = message.split('`').skip(3).step_by(2).map(|name| format!("`{name}`")).collect();
        return format!("unknown key `{}`; expected {}", quoted(1), known.join(", "));
    }
    if message.starts_with("missing field ") {
        return format!("`{}` is missing", quoted(1));
    }
    if message.starts_with("duplicate key") {
        return "a key that was set before".to_owned();
    }
    if let Some((got, expected)) =
        message.strip_prefix("invalid type: ").and_then(|said| said.rsplit_once(", expected "))
    {
        let expected = expected.replace("a sequence", "an array").replace("a map", "a table");
        return format!("expected {expected}, got {}", got.replace("sequence", "an array").replace("map", "a table"));
    }
    let is_ours = ["expected a ", "expected an ", "`", "the "].iter().any(|start| message.starts_with(start))
        && !message.contains("literal");
    if is_ours { message.to_owned() } else { "not valid TOML; expected KEY = VALUE, with strings in quotes".to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_words_of_a_library_are_shown() {
        for (text, said_of_it) in [
            ("listen = localhost", "not valid TOML"),
            ("listen =", "not valid TOML"),
            ("junk", "not valid TOML"),
            ("a = 1\na = 2", "a key that was set before"),
            ("[a\n", "not valid TOML"),
        ] {
            let error = toml::from_str::<toml::Table>(text).unwrap_err();
            assert!(said(error.message()).starts_with(said_of_it), "{text}: {}", error.message());
        }
        assert_eq!(said("unknown field `x`, expected one of `a`, `b`"), "unknown key `x`; expected `a`, `b`");
        assert_eq!(said("missing field `sha256`"), "`sha256` is missing");
        assert_eq!(said("invalid type: sequence, expected a string"), "expected a string, got an array");
    }
}
