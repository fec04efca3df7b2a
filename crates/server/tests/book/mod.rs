//! The book in `docs` and the README: their commands run unchanged, and their generated pages are up to date.

mod block;
mod generated;
mod lists;
mod reader;

use block::{Block, blocks};
pub(crate) use reader::read_along;
use std::path::{Path, PathBuf};

/// Blocks of commands and programs that no test runs: what builds for minutes, goes on until it is stopped, or needs what the
/// tests do not have. Lower this number when you can run one more; never raise it.
const NOT_RUN: usize = 5;

/// The folder of the repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// A test for each page that has something to run.
macro_rules! pages {
    ($($name:ident: $path:literal,)*) => {
        const PAGES: &[&str] = &[$($path),*];
        $(
            #[test]
            fn $name() {
                read_along($path);
            }
        )*
    };
}

pages! {
    adopt: "docs/adopt.md",
    beanstalk: "docs/beanstalk.md",
    getting_started: "docs/getting-started.md",
    from_beanstalkd: "docs/guides/from-beanstalkd.md",
    from_bullmq: "docs/guides/from-bullmq.md",
    from_laravel: "docs/guides/from-laravel.md",
    from_sidekiq: "docs/guides/from-sidekiq.md",
    languages: "docs/guides/languages.md",
    locks: "docs/guides/locks.md",
    redis_sorted_sets: "docs/guides/redis-sorted-sets.md",
    recurring_jobs: "docs/guides/recurring-jobs.md",
    chains: "docs/guides/chains.md",
    debounce: "docs/guides/debounce.md",
    retries: "docs/guides/retries.md",
    testing: "docs/guides/testing.md",
    sql_transaction: "docs/guides/sql-transaction.md",
    unpaid_order: "docs/guides/unpaid-order.md",
    webhooks: "docs/guides/webhooks.md",
    workers: "docs/guides/workers.md",
    redis: "docs/operations/redis.md",
    security: "docs/operations/security.md",
    sql: "docs/operations/sql.md",
    upgrade: "docs/operations/upgrade.md",
    monitoring: "docs/operations/monitoring.md",
    runbook: "docs/operations/runbook.md",
    command_line: "docs/reference/command-line.md",
    configuration: "docs/reference/configuration.md",
    http: "docs/reference/http.md",
}

/// Tests that know the expected outcome run the commands of these pages.
const RUN_ELSEWHERE: [&str; 2] = ["docs/operations/backup.md", "docs/operations/install.md"];

/// The end of the path of a page in Chinese.
const IN_CHINESE: &str = ".zh-CN.md";

/// The paths of all pages, from the root.
fn all_pages() -> Vec<String> {
    let mut pages = Vec::new();
    let mut folders = vec![root().join("docs")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                pages.push(path.strip_prefix(root()).unwrap().to_str().unwrap().to_owned());
            }
        }
    }
    pages.sort_unstable();
    pages
}

/// The same without translations, which have the same blocks as these (`translations_have_the_same_blocks`).
fn own_pages() -> impl Iterator<Item = String> {
    all_pages().into_iter().filter(|page| !page.ends_with(IN_CHINESE))
}

fn text(page: &str) -> String {
    std::fs::read_to_string(root().join(page)).unwrap_or_else(|error| panic!("{page}: {error}"))
}

#[test]
fn every_page_with_commands_has_a_test() {
    for page in own_pages() {
        let has_commands = blocks(&text(&page)).iter().any(Block::is_run);
        let is_read = PAGES.contains(&&*page) || RUN_ELSEWHERE.contains(&&*page);
        assert_eq!(is_read, has_commands, "{page}: add it to `pages!`, or remove it there");
    }
}

#[test]
fn few_blocks_of_commands_are_not_run() {
    let is_marked = |block: &&Block| matches!(&*block.language, "console" | "ruby");
    let count = |page: &String| blocks(&text(page)).iter().filter(is_marked).count();
    let counts: Vec<_> = own_pages().map(|page| (count(&page), page)).filter(|(n, _)| *n > 0).collect();
    assert_eq!(counts.iter().map(|(n, _)| n).sum::<usize>(), NOT_RUN, "{counts:#?}");
}
