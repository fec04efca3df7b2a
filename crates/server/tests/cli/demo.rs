//! `demo`.

use crate::cli::support::{Place, finish};

#[test]
fn it_runs_all_and_says_so() {
    let ran = finish(Place::new().bare(&["demo"]), b"");
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.out.contains("All 11 ran, none early"), "{}", ran.out);
    assert!(ran.out.contains("order.cancel") && ran.out.contains("cancelled, never runs"), "{}", ran.out);
    assert_eq!(ran.out.matches("done").count(), 11, "{}", ran.out);
}

#[test]
fn it_has_json() {
    let ran = finish(Place::new().bare(&["demo", "--json"]), b"");
    assert_eq!(ran.code, 0, "{ran:?}");
    let lines: Vec<serde_json::Value> = ran.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 13);
    assert_eq!(lines[12]["succeeded"], 11);
}
