//! `bench`: each load measures something. Tests do not check how fast.

use crate::cli::support::{Place, finish};
use serde_json::Value;

fn bench(arguments: &[&str]) -> Value {
    let all = [&["bench"], arguments, &["--json"]].concat();
    let ran = finish(Place::new().bare(&all), b"");
    assert_eq!(ran.code, 0, "{arguments:?}: {ran:?}");
    serde_json::from_str(&ran.out).unwrap()
}

#[test]
fn push_cycle_lateness_and_burst_measure() {
    let pushed = bench(&["push", "-n", "2500", "--tags", "2", "--key", "--waiting", "100"]);
    assert_eq!(pushed["figures"][0]["name"], "pushed");
    assert!(pushed["figures"][0]["value"].as_f64().unwrap() > 0.0);
    assert_eq!(pushed["timings"][0]["count"], 3);
    let cycled = bench(&["cycle", "-n", "2500", "--store", "memory"]);
    assert_eq!(cycled["timings"][1]["count"], 2_500);
    let late = bench(&["lateness", "-n", "200", "--rate", "200"]);
    assert_eq!(late["timings"][0]["count"], 200);
    let burst = bench(&["burst", "-n", "1000", "--seconds", "3", "--durability", "none"]);
    assert_eq!(burst["timings"][0]["count"], 300);
}

#[test]
fn people_get_a_histogram() {
    let ran = finish(Place::new().bare(&["bench", "push", "-n", "1000", "--store", "memory"]), b"");
    assert!(ran.out.contains("jobs/s") && ran.out.contains("p99") && ran.out.contains('█'), "{ran:?}");
}
