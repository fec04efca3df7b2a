//! The token file: TOML, always rewritten as a whole, and read by servers and by `duetime token`.

use super::stored_token::Token;
use crate::file_error::FileError;
use crate::toml_words;
use duetime_store::private::{self, Draft};
use serde::{Deserialize, Serialize};
use std::io::{ErrorKind, Write};
use std::path::Path;

/// The start of each error message about the file.
const WHAT: &str = "the tokens in";
/// Most tokens of a file: each request is compared with all of them.
const TOKENS_MAX: usize = 1_000;
const HEAD: &str = "# Tokens of Duetime, made by `duetime token create`. Only hashes of them are kept.\n\n";

/// All tokens of a file.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TokenFile {
    /// In order of creation.
    #[serde(default, rename = "token")]
    pub(crate) tokens: Vec<Token>,
}

impl TokenFile {
    /// Reads a file.
    ///
    /// # Errors
    /// If the file is missing or invalid.
    pub(crate) fn read(file: &Path) -> Result<Self, FileError> {
        let wrong = |why: String| FileError::new(WHAT, file, why);
        let text = std::fs::read_to_string(file).map_err(|error| match error.kind() {
            ErrorKind::NotFound => wrong("the file does not exist; `duetime token create` creates it".to_owned()),
            _ => wrong(error.to_string()),
        })?;
        Self::parse(&text).map_err(wrong)
    }

    fn parse(text: &str) -> Result<Self, String> {
        let all: Self = toml::from_str(text).map_err(|error| {
            // Its message shows the line, which may be a secret in the wrong place.
            let line = error.span().map_or(0, |span| text[..span.start].lines().count().max(1));
            format!("line {line}: {}", toml_words::said(error.message()))
        })?;
        all.check().map(|()| all)
    }

    fn check(&self) -> Result<(), String> {
        let count = self.tokens.len();
        if count > TOKENS_MAX {
            return Err(format!("it has {count} tokens; the limit is {TOKENS_MAX}"));
        }
        for (i, token) in self.tokens.iter().enumerate() {
            token.check()?;
            if self.tokens[..i].iter().any(|other| other.name == token.name || other.sha256 == token.sha256) {
                return Err(format!("the token {:?} is listed twice", token.name));
            }
        }
        Ok(())
    }

    /// Changes the file, or creates it if it is missing; of a link, the file that it leads to. Concurrent changes run one after another, and a reader sees all of
    /// a change or none of it.
    ///
    /// # Errors
    /// The error of `change`; or the file is invalid or cannot be written.
    pub(crate) fn change<T>(file: &Path, change: impl FnOnce(&mut Self) -> Result<T, String>) -> Result<T, FileError> {
        let wrong = |why: String| FileError::new(WHAT, file, why);
        let failed = |error: std::io::Error| wrong(error.to_string());
        // A link stays, since servers may read the real file under another name.
        let real = match std::fs::symlink_metadata(file) {
            Ok(found) if found.is_symlink() => std::fs::canonicalize(file)
                .map_err(|error| wrong(format!("it is a link to a file that cannot be reached: {error}")))?,
            _ => file.to_owned(),
        };
        let file = &*real;
        let mut beside = file.as_os_str().to_owned();
        beside.push(".lock");
        let lock = private::open_lock(Path::new(&beside)).map_err(failed)?;
        lock.lock().map_err(failed)?;
        let mut all = match std::fs::exists(file).map_err(failed)? {
            true => Self::read(file)?,
            false => Self::default(),
        };
        let changed = change(&mut all).map_err(wrong)?;
        all.check().map_err(wrong)?;
        let text = toml::to_string(&all).map_err(|error| wrong(error.to_string()))?;
        // A server that runs as another user can still read it.
        let mut new = Draft::like(file).map_err(|error| {
            wrong(format!("the new file cannot be created with the owner, group and mode of the old one: {error}"))
        })?;
        new.write_all(format!("{HEAD}{text}").as_bytes()).and_then(|()| new.replace()).map_err(failed)?;
        Ok(changed)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Secret;
    use super::*;
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    fn token(name: &str) -> Token {
        let allow = vec!["push:orders.*".parse().unwrap(), "read".parse().unwrap()];
        let rate = Some(crate::rate::parse_rate("5/s,burst=9").unwrap());
        let expires = Some("2026-12-01T00:00:00.000Z".parse().unwrap());
        Token { name: name.to_owned(), sha256: Secret::new().unwrap().hash(), allow, rate, created: None, expires }
    }

    #[test]
    fn what_is_written_reads_back() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("tokens.toml");
        let (a, b) = (token("a"), token("b"));
        for token in [&a, &b] {
            TokenFile::change(&file, |all| {
                all.tokens.push(token.clone());
                Ok(())
            })
            .unwrap();
        }
        assert_eq!(TokenFile::read(&file).unwrap().tokens, [a, b]);
        assert_eq!(file.metadata().unwrap().mode() & 0o777, 0o600);
        // So that the operator can let a group read it.
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o640)).unwrap();
        TokenFile::change(&file, |_| Ok(())).unwrap();
        assert_eq!(file.metadata().unwrap().mode() & 0o777, 0o640);
    }

    /// A revoked token would stay in the file that servers read.
    #[test]
    fn a_change_through_a_link_reaches_the_real_file() {
        let folder = tempfile::tempdir().unwrap();
        let (real, link) = (folder.path().join("real.toml"), folder.path().join("link.toml"));
        let add = |file: &Path, name: &str| {
            TokenFile::change(file, |all| {
                all.tokens.push(token(name));
                Ok(())
            })
        };
        std::os::unix::fs::symlink(&real, &link).unwrap();
        assert!(add(&link, "a").unwrap_err().to_string().contains("link"));
        add(&real, "a").unwrap();
        std::fs::set_permissions(&real, std::fs::Permissions::from_mode(0o640)).unwrap();
        add(&link, "b").unwrap();
        assert!(link.is_symlink());
        assert_eq!(TokenFile::read(&real).unwrap().tokens.len(), 2);
        assert_eq!(real.metadata().unwrap().mode() & 0o777, 0o640);
    }

    #[test]
    fn changes_at_once_are_all_made() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("tokens.toml");
        std::thread::scope(|scope| {
            for i in 0..8 {
                let file = &file;
                scope.spawn(move || {
                    TokenFile::change(file, |all| {
                        all.tokens.push(token(&i.to_string()));
                        Ok(())
                    })
                    .unwrap();
                });
            }
        });
        assert_eq!(TokenFile::read(&file).unwrap().tokens.len(), 8);
    }

    #[test]
    fn what_is_wrong_is_said_and_nothing_is_written() {
        let good = "name = 'a'\nsha256 = '00'\n";
        for (text, says) in [
            ("x = 1", "unknown key `x`"),
            (&format!("[[token]]\n{good}allow = ['read']"), "64 hexadecimal"),
            ("[[token]]\nname = 'a'", "`sha256` is missing"),
            ("token = [5]", "expected a table [[token]]"),
            ("[[token]]\nname = 'a'\nsha256 = 1\nallow = ['rule']", "expected"),
        ] {
            let error = TokenFile::parse(text).unwrap_err();
            assert!(error.contains(says) && error.contains("line "), "{error}");
        }
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("tokens.toml");
        let twice = TokenFile::change(&file, |all| {
            all.tokens.extend([token("a"), token("a")]);
            Ok(())
        });
        assert!(twice.unwrap_err().to_string().contains("\"a\" is listed twice"));
        assert!(!file.exists());
        assert!(TokenFile::read(&file).unwrap_err().to_string().contains("duetime token create"));
    }

    #[test]
    fn whatever_a_file_holds_it_is_read_or_refused() {
        duetime_core::testing::fuzz("tokens", |text| {
            let all = TokenFile::parse(text).ok()?;
            Some(toml::to_string(&all).expect("tokens are written as TOML"))
        });
    }
}
