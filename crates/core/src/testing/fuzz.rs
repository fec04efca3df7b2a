//! Fuzzing of parsers: for any input, a parser neither panics nor accepts values that it cannot print and read again.
//!
//! Each target has a corpus in `tests/corpus/TARGET`: files whose names begin with `good` are accepted, those that begin
//! with `bad` are refused. Random mutations of them follow, by a seed that is printed. `DUETIME_FUZZ_ROUNDS` sets how many,
//! and `DUETIME_FUZZ_SEED` repeats a run.

use super::Random;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

/// Changed inputs of one target, unless `DUETIME_FUZZ_ROUNDS` says otherwise.
const ROUNDS: u64 = 2_000;
/// The size limit of inputs.
const INPUT_BYTES_MAX: usize = 64 << 10;
/// Pieces that have a meaning in some format.
const PIECES: [&str; 30] = [
    "{",
    "}",
    "[",
    "]",
    "\"",
    "\\",
    "\\ud800",
    "\u{0}",
    "\u{202e}",
    "\u{1b}[31m",
    "\n",
    "\r\n",
    "\t",
    " ",
    "-",
    ".",
    ",",
    ":",
    "/",
    "@",
    "*",
    "%",
    "null",
    "0",
    "-1",
    "1e999",
    "18446744073709551616",
    "9007199254740993",
    "é",
    "\u{fffd}",
];

/// Feeds a parser its corpus and mutations of it. `parse` returns the accepted input as printed, or `None` if it is refused.
///
/// # Panics
/// If the parser panics, if a corpus file is not judged as its name says, or if printed output is not accepted and printed
/// the same again.
pub fn fuzz(target: &str, parse: impl Fn(&str) -> Option<String>) {
    fuzz_part(target, 1, parse);
}

/// The same for a slow parser: one round instead of this many.
///
/// # Panics Like [`fuzz`].
pub fn fuzz_part(target: &str, part: u64, parse: impl Fn(&str) -> Option<String>) {
    let corpus = corpus(target);
    for (name, text) in &corpus {
        let accepted = checked(target, text, &parse);
        let expected = name.starts_with("good");
        assert!(expected || name.starts_with("bad"), "{target}/{name}: expected a name that begins with good or bad");
        assert_eq!(accepted, expected, "{target}/{name}");
    }
    let number = |variable| std::env::var(variable).ok().map(|text| text.parse().expect("a number"));
    let seed = number("DUETIME_FUZZ_SEED").unwrap_or_else(|| getrandom::u64().expect("the system has random numbers"));
    println!("fuzzing {target} with DUETIME_FUZZ_SEED={seed}");
    let mut random = Random::new(seed);
    let texts: Vec<&str> = corpus.iter().map(|(_, text)| text.as_str()).collect();
    for _ in 0..number("DUETIME_FUZZ_ROUNDS").unwrap_or(ROUNDS).div_ceil(part) {
        let mut bytes = random.of(&texts).as_bytes().to_vec();
        for _ in 0..random.within(1..6) {
            change(&mut bytes, &texts, &mut random);
        }
        bytes.truncate(INPUT_BYTES_MAX);
        checked(target, &String::from_utf8_lossy(&bytes), &parse);
    }
}

/// Whether the text is accepted.
fn checked(target: &str, text: &str, parse: impl Fn(&str) -> Option<String>) -> bool {
    let printed = catch_unwind(AssertUnwindSafe(|| {
        let printed = parse(text)?;
        assert_eq!(parse(&printed).as_ref(), Some(&printed), "what was printed reads and prints the same");
        Some(printed)
    }));
    match printed {
        Ok(printed) => printed.is_some(),
        Err(_) => panic!("{target} fails on {text:?}"),
    }
}

fn corpus(target: &str) -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/corpus").join(target);
    let listing = std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut files: Vec<PathBuf> = listing.map(|entry| entry.expect("a readable folder").path()).collect();
    files.sort();
    assert!(!files.is_empty(), "{} is empty", folder.display());
    let read = |path: PathBuf| {
        let name = path.file_name().expect("a file has a name").to_string_lossy().into_owned();
        (name, std::fs::read_to_string(&path).expect("a corpus of text"))
    };
    files.into_iter().map(read).collect()
}

fn change(bytes: &mut Vec<u8>, texts: &[&str], random: &mut Random) {
    let length = bytes.len() as u64;
    let at = random.within(0..length + 1) as usize;
    let end = random.within(at as u64..length + 1) as usize;
    match random.within(0..7) {
        0 if at < bytes.len() => bytes[at] ^= 1 << random.within(0..8),
        1 if at < bytes.len() => bytes[at] = random.any() as u8,
        2 => drop(bytes.drain(at..end)),
        3 => {
            let piece = bytes[at..end].to_vec();
            drop(bytes.splice(at..at, piece));
        }
        4 => {
            let other = random.of(texts).as_bytes();
            let from = random.within(0..other.len() as u64 + 1) as usize;
            drop(bytes.splice(at..end, other[from..].iter().copied()));
        }
        5 => {
            let piece = random.of(&PIECES).repeat(random.within(1..200) as usize);
            drop(bytes.splice(at..at, piece.into_bytes()));
        }
        _ => drop(bytes.splice(at..at, random.of(&PIECES).bytes())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_and_a_value_that_does_not_come_back_are_found() {
        for parse in [
            |text: &str| text.contains('7').then(|| panic!("seven")),
            |text: &str| text.contains('7').then(|| format!("{text}7")),
        ] as [fn(&str) -> Option<String>; 2]
        {
            assert!(catch_unwind(|| checked("none", "1", parse)).is_ok_and(|accepted| !accepted));
            assert!(catch_unwind(|| checked("none", "7", parse)).is_err());
        }
    }
}
