//! Alerts and dashboard ask for metrics and labels that the server shows, and each alert is in the runbook.

use super::server::Server;
use super::{path, read, run, yaml};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::net::TcpListener;
use std::process::Command;

const DOCS: &str = include_str!("../../../../docs/operations/runbook.md");
const MONITORING: &str = include_str!("../../../../docs/operations/monitoring.md");
/// Prometheus adds them.
const OF_PROMETHEUS: [&str; 3] = ["up", "instance", "job"];

type Shown = BTreeMap<String, BTreeSet<String>>;

/// The series of a server that has done a bit of everything, each with its labels.
fn shown() -> Shown {
    let server = Server::start();
    // Nobody answers there.
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let target = json!({"target": {"url": format!("http://{nobody}/")}, "max_attempts": 1});
    server.call("PUT", "/v1/queues/hooks", &target.to_string());
    for queue in ["q", "hooks"] {
        server.call("POST", &format!("/v1/queues/{queue}/jobs"), r#"{"payload": 1}"#);
    }
    server.call("POST", "/v1/queues/q/take", "{}");
    let text = server.call("GET", "/metrics", "");
    let mut shown = Shown::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (name, rest) = line.split_once(['{', ' ']).unwrap();
        let labels = rest.split_once('}').map_or("", |(labels, _)| labels);
        let labels = labels.split(',').filter_map(|label| Some(label.split_once('=')?.0.to_owned()));
        shown.entry(name.to_owned()).or_default().extend(labels);
    }
    assert!(shown.len() > 20, "{shown:?}");
    shown
}

/// All words of a text that could be names.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.split(move |c: char| !is_part(c)).filter(|word| word.starts_with(|c: char| c.is_ascii_lowercase()))
}

/// Labels: those in `by (…)`, before `=` in braces, and in the legend of a series.
fn labels(expression: &str, text: &str) -> BTreeSet<String> {
    let mut labels = BTreeSet::new();
    for part in expression.split("by (").skip(1) {
        labels.extend(words(part.split_once(')').unwrap().0).map(str::to_owned));
    }
    for part in expression.split('{').skip(1) {
        for matcher in part.split_once('}').unwrap().0.split(", ") {
            labels.extend(words(matcher.split(['=', '!']).next().unwrap()).map(str::to_owned));
        }
    }
    labels.extend(text.split("{{").skip(1).filter_map(|part| {
        let name = part.split_once("}}").unwrap().0.trim();
        let name = name.strip_prefix("$labels.").unwrap_or(name);
        (!name.starts_with('$')).then(|| name.to_owned())
    }));
    labels
}

#[track_caller]
fn check(shown: &Shown, expression: &str, text: &str) {
    let asked: Vec<&str> = words(expression).filter(|word| word.starts_with("duetime_")).collect();
    assert!(!asked.is_empty() || expression.starts_with("up{"), "{expression}");
    let mut there: BTreeSet<&str> = OF_PROMETHEUS.into();
    for name in asked {
        let labels = shown.get(name).unwrap_or_else(|| panic!("no metric {name}: {expression}"));
        there.extend(labels.iter().map(String::as_str));
    }
    for label in labels(expression, text) {
        assert!(there.contains(&*label), "no label {label}, only {there:?}: {expression}");
    }
}

#[test]
fn what_alerts_and_dashboard_ask_for_is_there() {
    let shown = shown();
    let alerts = yaml(&read("prometheus/alerts.yaml"));
    let rules: Vec<Value> = alerts["groups"].as_array().unwrap().iter().flat_map(rules).collect();
    assert!(rules.len() > 10);
    for rule in &rules {
        let summary = rule["annotations"]["summary"].as_str().unwrap();
        check(&shown, rule["expr"].as_str().unwrap(), summary);
        let heading = format!("\n## {}\n", rule["alert"].as_str().unwrap());
        assert!(DOCS.contains(&heading), "the runbook lacks {heading}");
    }
    let in_runbook = DOCS.lines().filter(|line| line.starts_with("## Duetime")).count();
    assert_eq!(in_runbook, rules.len(), "the runbook has more than there is");

    let dashboard: Value = serde_json::from_str(&read("grafana/dashboard.json")).unwrap();
    let mut expressions = 0;
    for panel in dashboard["panels"].as_array().unwrap() {
        for target in panel["targets"].as_array().into_iter().flatten() {
            let expression = target["expr"].as_str().unwrap();
            check(&shown, expression, target["legendFormat"].as_str().unwrap());
            expressions += 1;
        }
    }
    assert!(expressions > 20, "{expressions}");
    let variable = dashboard["templating"]["list"][1]["definition"].as_str().unwrap();
    let (metric, label) = variable.strip_prefix("label_values(").unwrap().split_once(", ").unwrap();
    assert!(shown[metric].contains(label.trim_end_matches(')')), "{variable}");
}

#[test]
fn alerts_fire_as_their_own_tests_say() {
    for [check, file] in [["check", "alerts.yaml"], ["test", "alerts_test.yaml"]] {
        run(Command::new("promtool").args([check, "rules"]).arg(path("prometheus").join(file)));
    }
}

#[test]
fn the_configuration_of_prometheus_in_the_book_is_for_this_server() {
    let blocks = MONITORING.split("```yaml\n").skip(1).map(|rest| yaml(rest.split_once("```").unwrap().0));
    let [prometheus, alerts] = <[Value; 2]>::try_from(blocks.collect::<Vec<_>>()).expect("two blocks of YAML");
    let scraped = prometheus["scrape_configs"][0]["job_name"].as_str().unwrap();
    assert!(read("prometheus/alerts.yaml").contains(&format!("up{{job=\"{scraped}\"}}")), "{scraped}");
    let shown = shown();
    let rules: Vec<Value> = alerts["groups"].as_array().unwrap().iter().flat_map(rules).collect();
    for rule in &rules {
        check(&shown, rule["expr"].as_str().unwrap(), "");
    }
    assert!(!rules.is_empty());
}

fn rules(group: &Value) -> Vec<Value> {
    group["rules"].as_array().unwrap().clone()
}
