//! Every crate offers a licence under which we may ship it inside a binary.

use crate::tidy::Finding;

/// SPDX names of licences that ask for no more than to be named. `WITH` exceptions only add freedom, and are not told
/// apart.
const ALLOWED: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    // Of data: the well-known roots of TLS, which mysql_async brings.
    "CDLA-Permissive-2.0",
    "ISC",
    "MIT",
    "MIT-0",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// `packages` are names and SPDX expressions.
pub(super) fn check(packages: &[(&str, Option<&str>)]) -> Vec<Finding> {
    let advice = packages.iter().filter_map(|(name, licence)| match licence {
        Some(licence) if allows(licence) => None,
        Some(licence) => {
            Some(format!("{name} has the licence `{licence}`, which xtask/src/deps/licences.rs does not allow"))
        }
        None => Some(format!("{name} states no SPDX licence: find out, or do without it")),
    });
    advice.map(|advice| Finding { path: "Cargo.lock".into(), line: 0, advice }).collect()
}

/// Whether an SPDX expression can be satisfied by allowed licences; what does not parse cannot.
fn allows(expression: &str) -> bool {
    // Before SPDX, `/` meant "or".
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let mut words = Words { words: spaced.split_whitespace().collect(), next: 0 };
    let allowed = words.either();
    allowed == Some(true) && words.peek().is_none()
}

struct Words<'a> {
    words: Vec<&'a str>,
    next: usize,
}

impl<'a> Words<'a> {
    fn peek(&self) -> Option<&'a str> {
        self.words.get(self.next).copied()
    }

    fn take(&mut self) -> Option<&'a str> {
        let word = self.peek()?;
        self.next += 1;
        Some(word)
    }

    fn take_if(&mut self, word: &str) -> bool {
        let found = self.peek() == Some(word);
        self.next += usize::from(found);
        found
    }

    fn either(&mut self) -> Option<bool> {
        let mut allowed = self.both()?;
        while self.take_if("OR") {
            allowed |= self.both()?;
        }
        Some(allowed)
    }

    fn both(&mut self) -> Option<bool> {
        let mut allowed = self.one()?;
        while self.take_if("AND") {
            allowed &= self.one()?;
        }
        Some(allowed)
    }

    fn one(&mut self) -> Option<bool> {
        if self.take_if("(") {
            let allowed = self.either()?;
            return self.take_if(")").then_some(allowed);
        }
        let allowed = ALLOWED.contains(&self.take()?);
        if self.take_if("WITH") {
            self.take()?;
        }
        Some(allowed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_of_several_is_enough_and_all_are_needed_of_both() {
        for good in
            ["MIT", "MIT OR GPL-3.0", "MIT/GPL-3.0", "(GPL-3.0 OR MIT) AND Zlib", "Apache-2.0 WITH LLVM-exception"]
        {
            assert!(allows(good), "{good}");
        }
        for bad in ["GPL-3.0", "MIT AND GPL-3.0", "(MIT OR Zlib) AND GPL-3.0", "MIT OR", "MIT)", "(MIT", "", "MIT MIT"]
        {
            assert!(!allows(bad), "{bad}");
        }
    }

    #[test]
    fn a_crate_without_a_good_licence_is_found() {
        assert_eq!(check(&[("a", Some("MIT")), ("b", Some("GPL-3.0")), ("c", None)]).len(), 2);
    }
}
