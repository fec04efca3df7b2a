//! The examples as users run them: each on a private store.

use duetime_store::testing::{MariaDbServer, PostgresServer, RedisServer};
use std::path::PathBuf;
use std::process::Command;

/// Cargo puts examples beside the folder of tests.
fn example(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("this test");
    let folder = test.ancestors().nth(2).expect("a test lies in target/PROFILE/deps");
    let path = folder.join("examples").join(name);
    let hint = "cargo build -p duetime --all-features --examples";
    assert!(path.is_file(), "expected {}: {hint}", path.display());
    path
}

/// The last line that an example prints, and its whole output.
fn run(name: &str, ledger: Option<String>) -> (String, String) {
    let server = RedisServer::start();
    let ran = Command::new(example(name)).arg(server.url()).args(ledger).output().expect("the example starts");
    let said = String::from_utf8_lossy(&ran.stdout).into_owned();
    assert!(ran.status.success(), "{}: {said}{}", ran.status, String::from_utf8_lossy(&ran.stderr));
    (said.lines().last().unwrap_or_default().to_owned(), said)
}

#[test]
fn ten_phones_are_sold() {
    let (last, said) = run("flash_sale", None);
    assert_eq!(last, "exactly 10 phones were sold by lock, and by key", "{said}");
    assert_eq!(said.matches("  phone ").count(), 20, "{said}");
}

#[test]
fn unpaid_orders_are_timed_out_once() {
    let (last, said) = run("order_timeout", None);
    assert_eq!(last, "each unpaid order was timed out exactly once, none early, and none that was paid", "{said}");
    assert!(said.starts_with("3000 orders: "), "{said}");
}

#[test]
fn unpaid_orders_are_cancelled_as_in_the_readme() {
    let folder = tempfile::tempdir().unwrap();
    let ran = Command::new(example("unpaid_order")).current_dir(folder.path()).output().expect("the example starts");
    assert_eq!(String::from_utf8_lossy(&ran.stdout), "order 2 is cancelled\n", "{ran:?}");
    assert!(folder.path().join("jobs.db").exists());
}

#[test]
fn refunds_that_nobody_handles_are_granted() {
    let (maria_db, postgres) = (MariaDbServer::with(true, &[]), PostgresServer::with(true, &[]));
    for ledger in [maria_db.url(), postgres.url()] {
        let (last, said) = run("after_sale", Some(ledger));
        assert_eq!(last, "6 granted, 2 handled by the merchant, 1 refused by the service", "{said}");
        let tried_again = "succeeded after 3 attempts, the service answered 503, the service answered 503";
        assert_eq!(said.matches(tried_again).count(), 2, "{said}");
    }
}
