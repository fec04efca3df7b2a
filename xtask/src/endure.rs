//! `cargo xtask endure`: the release binary under all faults at once, and the sum of all such runs.
//!
//! Each round is a line in [`FILE`], with its seed and the commit that it tried, so that runs of half an hour add up.

use std::collections::BTreeMap;

use crate::{process, repo, setup, sim};

/// The file in the repository that records the rounds.
const FILE: &str = "bench/endure.tsv";
/// Columns that name a round; the others are numbers that add up.
const NAMES: usize = 3;

/// Default minutes.
pub(crate) const MINUTES: u64 = 30;

/// Runs rounds on this store for this long.
pub(crate) fn run(minutes: u64, store: &str, seed: Option<u64>) -> Result<(), String> {
    setup::install_missing()?;
    let mut git = std::process::Command::new("git");
    git.args(["describe", "--always", "--dirty"]).current_dir(repo::root());
    let commit = process::output(git)?;
    let mut command = sim::long_test("endure", &[]);
    command
        .env("DUETIME_ENDURE_STORE", store)
        .env("DUETIME_ENDURE_SECONDS", (minutes * 60).to_string())
        .env("DUETIME_ENDURE_FILE", repo::root().join(FILE))
        .env("DUETIME_ENDURE_COMMIT", commit.trim());
    if let Some(seed) = seed {
        command.env("DUETIME_ENDURE_SEED", seed.to_string());
    }
    // There, nothing can be downloaded any more.
    process::run(process::cargo(["fetch", "--locked"]))?;
    sim::with_server(process::in_own_network(command))
}

/// Prints the sums of all rounds, by store and over all.
pub(crate) fn sum() -> Result<(), String> {
    let path = repo::root().join(FILE);
    let text = std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    print!("{}", summed(&text)?);
    Ok(())
}

fn summed(text: &str) -> Result<String, String> {
    let mut lines = text.lines();
    let header: Vec<&str> = lines.next().ok_or("expected a line that names the columns")?.split('\t').collect();
    let mut sums: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
    for line in lines {
        let words: Vec<&str> = line.split('\t').collect();
        let numbers: Option<Vec<u64>> = words.iter().skip(NAMES).map(|word| word.parse().ok()).collect();
        let numbers = numbers.filter(|numbers| numbers.len() + NAMES == header.len());
        let numbers = numbers.ok_or_else(|| format!("expected {} columns, got {line:?}", header.len()))?;
        for store in [words[1], "all"] {
            let sum = sums.entry(store).or_insert_with(|| vec![0; numbers.len() + 1]);
            sum[0] += 1;
            sum[1..].iter_mut().zip(&numbers).for_each(|(sum, number)| *sum += number);
        }
    }
    let mut shown = String::new();
    let columns = std::iter::once(&"rounds").chain(&header[NAMES..]);
    shown.push_str(&format!("{:<16}", ""));
    sums.keys().for_each(|store| shown.push_str(&format!("{store:>20}")));
    for (i, column) in columns.enumerate() {
        shown.push_str(&format!("\n{column:<16}"));
        sums.values().for_each(|sum| shown.push_str(&format!("{:>20}", sum[i])));
    }
    shown.push('\n');
    Ok(shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_add_up_by_store_and_over_all() {
        let text =
            "commit\tstore\tseed\tseconds\tflushes\nabc\tfile\t1\t45\t0\nabc\tredis\t2\t50\t3\nabd\tredis\t3\t50\t4\n";
        let shown = summed(text).unwrap();
        let line = |name: &str| -> Vec<String> {
            let line = shown.lines().find(|line| line.starts_with(name)).unwrap();
            line[16..].split_whitespace().map(str::to_owned).collect()
        };
        assert_eq!(line("rounds"), ["3", "1", "2"]);
        assert_eq!(line("seconds"), ["145", "45", "100"]);
        assert_eq!(line("flushes"), ["7", "0", "7"]);
        assert!(summed("commit\tstore\tseed\tseconds\nabc\tfile\t1\n").is_err());
    }
}
