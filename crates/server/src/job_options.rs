//! The options of a job by their names, for those that show them all: a new option is shown without a change there.

use duetime_core::JobOptions;
use serde_json::{Map, Value};

/// The options that a caller gave, as they are in JSON.
pub(crate) fn given(options: &JobOptions) -> Map<String, Value> {
    // What the engine keeps there is not among them.
    let given = JobOptions { moves: 0, releases: 0, marks: None, imported: false, sent: None, ..options.clone() };
    match serde_json::to_value(given) {
        Ok(Value::Object(given)) => given,
        given => unreachable!("options are an object: {given:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use duetime_core::Retry;

    #[test]
    fn what_the_engine_keeps_is_not_given() {
        let rule = Retry { max_attempts: Some(3), ..Retry::default() };
        let options = JobOptions { trace: Some("t".into()), moves: 2, releases: 1, imported: true, ..rule.into() };
        assert_eq!(Value::from(given(&options)), serde_json::json!({"max_attempts": 3, "trace": "t"}));
        assert!(given(&JobOptions::default()).is_empty());
    }
}
