//! Every crate offers a licence under which we may ship it inside a binary.

use spdx::{Expression, LicenseReq, ParseMode};

use super::policy::PATH;
use crate::tidy::Finding;

/// `packages` are names and SPDX expressions.
pub(super) fn check(packages: &[(&str, Option<&str>)], allowed: &[String]) -> Vec<Finding> {
    let advice = packages.iter().filter_map(|(name, licence)| match licence {
        Some(licence) if allows(licence, allowed) => None,
        Some(licence) => Some(format!("{name} has the licence `{licence}`, which {PATH} does not allow")),
        None => Some(format!("{name} states no SPDX licence: find out, or remove it")),
    });
    advice.map(|advice| Finding { path: "Cargo.lock".into(), line: 0, advice }).collect()
}

/// Whether an SPDX expression can be satisfied by allowed licences; what does not parse cannot.
fn allows(expression: &str, allowed: &[String]) -> bool {
    let is_allowed = |licence: &LicenseReq| allowed.iter().any(|allowed| *allowed == licence.license.to_string());
    Expression::parse_mode(expression, ParseMode::LAX).is_ok_and(|expression| expression.evaluate(is_allowed))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed() -> Vec<String> {
        ["MIT", "Apache-2.0", "Zlib"].map(str::to_owned).into()
    }

    #[test]
    fn one_of_several_is_enough_and_all_are_needed_of_both() {
        for good in
            ["MIT", "MIT OR GPL-3.0", "MIT/GPL-3.0", "(GPL-3.0 OR MIT) AND Zlib", "Apache-2.0 WITH LLVM-exception"]
        {
            assert!(allows(good, &allowed()), "{good}");
        }
        for bad in ["GPL-3.0", "MIT AND GPL-3.0", "(MIT OR Zlib) AND GPL-3.0", "MIT OR", "MIT)", "(MIT", "", "MIT MIT"]
        {
            assert!(!allows(bad, &allowed()), "{bad}");
        }
    }

    #[test]
    fn a_crate_without_a_good_licence_is_found() {
        assert_eq!(check(&[("a", Some("MIT")), ("b", Some("GPL-3.0")), ("c", None)], &allowed()).len(), 2);
    }
}
