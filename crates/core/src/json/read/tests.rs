//! What errors say: each field with each kind of value.

use super::*;
use crate::api::{Object, Push};

fn error(text: &str) -> (String, String, String) {
    match read::<Object<Push<'_>>>(text) {
        Err(Unread::Invalid(Invalid { what, expected, got })) => (what.into_owned(), expected, got),
        other => panic!("{text}: {other:?}"),
    }
}

#[test]
fn an_error_names_the_field_and_what_it_accepts() {
    for (text, what, expected, got) in [
        (r#"{"retry": 5}"#, "retry", r#""default", "none""#, "the number 5"),
        (r#"{"retry": {"steps": ["1s", 2]}}"#, "retry.steps[1]", "a duration such as", "the number 2"),
        (r#"{"retry": {"steps": ["1s", "2"]}}"#, "retry.steps[1]", "a duration such as", "\"2\""),
        (r#"{"retry": {"fixed": 7}}"#, "retry.fixed", r#"{"delay": "30s"}"#, "the number 7"),
        (r#"{"retry": {"fixed": {}}}"#, "retry.fixed.delay", GIVEN, NOTHING),
        (r#"{"retry": {"fixed": {"delay": "1s", "a": 1}}}"#, "retry.fixed.a", "`delay`", UNKNOWN),
        (r#"{"max_crashes": "ten"}"#, "max_crashes", "a whole number, 1 or more", "\"ten\""),
        (r#"{"target": {"redis_list": ["a"]}}"#, "target.redis_list", r#""key": "a list"}"#, "an array"),
        (r#"{"retry": "fast"}"#, "retry", r#""default", "none""#, "\"fast\""),
        (
            r#"{"on_conflict": 1}"#,
            "on_conflict",
            r#""keep", "replace", "reject", or an object such as {"debounce": "10s", "at_latest": "2m"}"#,
            "the number 1",
        ),
        (r#"{"on_conflict": "merge"}"#, "on_conflict", r#""keep""#, "\"merge\""),
        (r#"{"max_attempts": -1}"#, "max_attempts", "from 0 to 4294967295", "the number -1"),
        (r#"{"max_attempts": "many"}"#, "max_attempts", "a whole number", "\"many\""),
        (r#"{"target": 5}"#, "target", r#"{"url": "https://…"}"#, "the number 5"),
        (r#"{"target": {"url": 5}}"#, "target", "", ""),
        (r#"{"lease": ["1s"]}"#, "lease", "a duration", "an array"),
        (r#"{"lease": "20y"}"#, "lease", "a duration", "longer than 10 years (3652d12h)"),
        (r#"{"when_exhausted": "move"}"#, "when_exhausted", r#"or {"move": "a queue"}"#, "\"move\""),
        (r#"{"when_exhausted": {"keep": 1}}"#, "when_exhausted", r#""keep", "drop""#, "an object"),
        (r#"{"retry": "steps"}"#, "retry", r#"{"steps": ["15s", "1m"]}"#, "\"steps\""),
        (r#"{"key_until": {"finished": 1}}"#, "key_until", r#""finished" or "started""#, "an object"),
        (r#"{"delai": "5s"}"#, "delai", "did you mean `delay`?", UNKNOWN),
        (r#"{"colour": "red"}"#, "colour", "one of `queue`", UNKNOWN),
        (r#"{"lease": "1s", "lease": "1s"}"#, "lease", "given once", "it twice"),
        (r#"{"lease": "\ud800"}"#, "lease", "valid Unicode", "half a surrogate pair"),
        ("[1]", "body", "an object", "an array"),
        ("7", "body", "an object", "the number 7"),
    ] {
        let (field, accepted, came) = error(text);
        assert!(field.starts_with(what), "{text}: {field}");
        assert!(accepted.contains(expected), "{text}: {accepted}");
        assert!(came.contains(got), "{text}: {came}");
        let words = format!("{accepted} {came}");
        assert!(
            !["struct ", "u32", "variant", "sequence", " at line "].iter().any(|word| words.contains(word)),
            "{words}"
        );
    }
}

/// The names of the fields of a body, as the error about an unknown one lists them.
fn fields<'a, T: Deserialize<'a>>() -> Vec<String> {
    let Err(error) = read::<Object<T>>(r#"{"?": 1}"#) else { panic!("an unknown field is refused") };
    let error = error.to_string();
    let (_, listed) = error.split_once("expected ").unwrap_or_default();
    listed.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// Every field of these bodies, with values of every type and with every word that a field with several forms knows.
fn every_refusal<'a, T: Deserialize<'a>>(refusals: &mut Vec<(String, String)>) {
    let words = FORMS.iter().flat_map(|(_, form)| form.split('"').skip(1).step_by(2)).chain(["x", ""]);
    let mut values: Vec<String> =
        ["null", "true", "7", "-7", "1.5", "1e99", "[]", "[7]", "{}"].map(str::to_owned).into();
    for word in words {
        let of = |value: &str| format!("{{\"{word}\": {value}}}");
        let inner = ["null", "7", "\"x\"", "[]", "[7]", "{}", r#"{"x": 7}"#].map(of);
        values.extend([format!("\"{word}\""), format!("[\"{word}\"]")].into_iter().chain(inner));
    }
    values.push(r#"{"keep": null, "drop": null}"#.to_owned());
    for field in fields::<T>() {
        for value in &values {
            let text: &'static str = Box::leak(format!("{{\"{field}\": {value}}}").into_boxed_str());
            if let Err(error) = read::<Object<T>>(text) {
                refusals.push((text.to_owned(), error.to_string()));
            }
        }
    }
}

#[test]
fn no_error_speaks_of_the_parser_or_of_a_type() {
    use crate::api::{
        Complete, Extend, Lock, Patch, PauseBody, Progress, QueueChanges, Reserve, ScheduleBody, Settle, Take,
    };
    let mut refusals = Vec::new();
    every_refusal::<Push<'_>>(&mut refusals);
    every_refusal::<Patch<'_>>(&mut refusals);
    every_refusal::<QueueChanges>(&mut refusals);
    every_refusal::<ScheduleBody<'_>>(&mut refusals);
    every_refusal::<Reserve>(&mut refusals);
    every_refusal::<Take>(&mut refusals);
    every_refusal::<Settle<'_>>(&mut refusals);
    every_refusal::<Complete<'_>>(&mut refusals);
    every_refusal::<crate::rules::Failure>(&mut refusals);
    every_refusal::<crate::rules::Release>(&mut refusals);
    every_refusal::<crate::rules::Park>(&mut refusals);
    every_refusal::<Extend>(&mut refusals);
    every_refusal::<Progress>(&mut refusals);
    every_refusal::<Lock>(&mut refusals);
    every_refusal::<PauseBody>(&mut refusals);
    every_refusal::<crate::engine::Query>(&mut refusals);
    assert!(refusals.len() > 5_000, "{}", refusals.len());
    for (text, said) in refusals {
        let bare: String = said.split(|letter: char| !letter.is_ascii_alphanumeric()).collect::<Vec<_>>().join(" ");
        assert!(!said.contains("must be unit"), "{text}: {said}");
        for word in [
            "variant",
            "newtype",
            "struct",
            "enum",
            "tuple",
            "sequence",
            "map",
            "integer",
            "floating",
            "borrowed",
            "EOF",
            "u8",
            "u16",
            "u32",
            "u64",
            "usize",
            "i64",
            "f64",
            "something else",
            "invalid type",
            "invalid value",
            "expected value",
            "another type",
        ] {
            assert!(!format!(" {bare} ").contains(&format!(" {word} ")), "{text}: {said}");
        }
    }
}

#[test]
fn what_is_not_json_says_where() {
    for text in ["{", "{\"lease\": 01}", "{} {}", "nonsense", ""] {
        let Err(Unread::Malformed(why)) = read::<Object<Push<'_>>>(text) else { panic!("{text}") };
        assert!(why.contains("line 1 column"), "{text}: {why}");
    }
}

#[test]
fn what_came_is_cut() {
    let (.., got) = error(&format!(r#"{{"max_attempts": "{}"}}"#, "m".repeat(5_000)));
    assert!(got.chars().count() <= SHOWN_CHARS_MAX + 1, "{got}");
}

/// A comparison with a name of 60 MB took six seconds.
#[test]
fn a_long_unknown_name_is_compared_with_none_and_cut() {
    let short = format!("priority{}", "y".repeat(3));
    assert!(error(&format!(r#"{{"{short}": 1}}"#)).1.starts_with("did you mean `priority`? Accepted: `queue`, "));
    // They are as alike as two names can be.
    let [most, more] = [COMPARED_BYTES_MAX, COMPARED_BYTES_MAX + 1].map(|bytes| "y".repeat(bytes));
    assert!(known(&most, &[&more, "x"]).contains("did you mean"));
    assert!(!known(&more, &[&most, "x"]).contains("did you mean"));
    let longest = "y".repeat(5_000);
    for text in
        [format!(r#"{{"{longest}": 1}}"#), format!(r#"{{"target":{{"url":"https://a","headers":{{"{longest}":1}}}}}}"#)]
    {
        let (what, ..) = error(&text);
        assert!(what.chars().count() <= SHOWN_CHARS_MAX + 1, "{what}");
    }
}

/// The name is quoted in backticks, and may have some.
#[test]
fn an_unknown_name_adds_nothing_to_the_accepted_ones() {
    for name in ["a`b`c`d", "`", "a`, expected `b", "x`, expected one of `y`, `z`"] {
        let (what, expected, _) = error(&format!(r#"{{"{name}": 1}}"#));
        assert!(expected.starts_with("one of `queue`, ") && !expected.contains("`b"), "{name}: {expected}");
        assert_eq!(what, name);
    }
}
