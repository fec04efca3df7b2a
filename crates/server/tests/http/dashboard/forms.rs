//! The form that pushes a job.

use super::Browser;
use crate::http::server::Server;
use serde_json::json;

#[test]
fn what_a_form_holds_reaches_the_job_digit_by_digit() {
    let server = Server::start();
    let browser = Browser::new(&server);
    let payload = r#"{"large": 12345678901234567890123, "small": 0.1000000000000000055511151231257827}"#;
    let fields =
        [("do", "push"), ("payload", payload), ("kind", "a&b"), ("delay", "1h"), ("tags", "x, y"), ("origin", "once")];
    let reply = browser.act("/queues/q", &fields);
    let to = reply.header("location").unwrap().to_owned();
    assert!(to.starts_with("/jobs/") && to.ends_with("?done=created.1"), "{to}");
    let shown = server.get(&to.replace("/jobs/", "/v1/jobs/").replace("?done=created.1", ""));
    assert!(
        shown.body.contains("12345678901234567890123") && shown.body.contains("0.1000000000000000055511151231257827")
    );
    assert!(browser.get(&to).body.contains("Pushed: 1"));
    // The form sent again, as a reload does.
    let again = browser.act("/queues/q", &fields);
    assert!(again.header("location").unwrap().ends_with("?done=repeated.1"));
    assert_eq!(server.get("/v1/queues/q").ok()["scheduled"], 1);
    let wrong = browser.act("/queues/q", &[("do", "push"), ("payload", "{")]);
    assert_eq!(wrong.status, 400);
    assert!(wrong.body.contains("`payload`"), "{}", wrong.body);
}

#[test]
fn options_of_a_push_are_merged_and_what_is_refused_stays_in_the_form() {
    let server = Server::start();
    let browser = Browser::new(&server);
    let push = |fields: &[(&str, &str)]| browser.act("/queues/q", &[&[("do", "push")], fields].concat());
    let options = r#"{"priority": 3, "retry": {"steps": ["5s"]}, "payload_base64": "AAE=", "origin": "mine"}"#;
    let reply = push(&[("payload", ""), ("kind", "k"), ("options", options), ("origin", "of the form")]);
    let to = reply.header("location").unwrap_or_else(|| panic!("{}", reply.body));
    let job = server.job(to.trim_start_matches("/jobs/").split('?').next().unwrap());
    for (name, value) in [("priority", json!(3)), ("payload_base64", json!("AAE=")), ("origin", json!("mine"))] {
        assert_eq!(job[name], value, "{name}");
    }
    let pushed = server.get("/v1/queues/q").ok();
    for (options, problem) in [
        ("[1]", "`options` must be a JSON object"),
        (r#"{"delay": "2h"}"#, "`delay` must be set once, got it in its field and in `options`"),
        (r#"{"payload": 2}"#, "`payload` must be set once, got it in its field and in `options`"),
        (r#"{"priorty": 3}"#, "`priorty`"),
        (r#"{"expires": "<b>"}"#, "`expires`"),
    ] {
        let reply = push(&[("payload", "[1, 2]"), ("delay", "7h"), ("tags", "<i>, x"), ("options", options)]);
        assert_eq!(reply.status, 400, "{options}: {}", reply.body);
        let alert = reply.body.split("role=\"alert\"").nth(1).unwrap().split("</div>").next().unwrap();
        assert!(alert.contains(problem), "{options}: {alert}");
        let typed = options.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;");
        for kept in [
            ">[1, 2]<",
            "value=\"7h\"",
            "value=\"&lt;i&gt;, x\"",
            &format!(">{typed}<"),
            "details class=\"action\" open",
        ] {
            assert!(reply.body.contains(kept), "{kept}: {}", reply.body);
        }
    }
    assert_eq!(server.get("/v1/queues/q").ok(), pushed, "nothing was pushed");
}

#[test]
fn the_first_job_of_a_queue_is_pushed_from_the_list_of_queues() {
    let server = Server::start();
    let browser = Browser::new(&server);
    let push = |queue| browser.act("/queues", &[("do", "push"), ("queue", queue), ("payload", "7")]);
    for wrong in ["", "two words"] {
        let reply = push(wrong);
        assert!(reply.status == 400 && reply.body.contains("`queue` must be 1 to 200 of"), "{}", reply.body);
        assert!(reply.body.contains(">7<") && reply.body.contains(&format!("name=\"queue\" value=\"{wrong}\"")));
    }
    let to = push("new/queue");
    let to = to.header("location").unwrap();
    let job = server.job(to.trim_start_matches("/jobs/").split('?').next().unwrap());
    assert_eq!((&job["queue"], &job["payload"]), (&json!("new/queue"), &json!(7)));
}

/// Browsers send line ends as CR and LF.
#[test]
fn a_payload_of_several_lines_can_be_edited() {
    let server = Server::start();
    let browser = Browser::new(&server);
    let pushed = browser.act("/queues/q", &[("do", "push"), ("payload", "{\r\n  \"order\": 17\r\n}"), ("delay", "1h")]);
    let path = pushed.header("location").unwrap().split('?').next().unwrap().to_owned();
    let shown = "{\n  &quot;order&quot;: 17\n}";
    let page = browser.get(&path).body;
    assert!(page.contains(&format!(">{shown}</textarea>")), "{page}");
    let version = server.job(&path[6..])["version"].to_string();
    let edit = [("do", "edit"), ("version", &*version), ("priority", "5")];
    let edited = browser.act(&path, &[&edit[..], &[("payload", "{\r\n  \"order\": 18\r\n}")]].concat());
    assert_eq!(edited.status, 303, "{}", edited.body);
    assert_eq!(server.job(&path[6..])["payload"], json!({"order": 18}));
    for (do_, field, value, why) in [
        ("push", "payload", "{bad", "`payload` must be JSON: a name in double quotes is expected, at line 1 column 2"),
        ("push", "options", "{bad", "`options` must be a JSON object: a name in double quotes is expected, at line 1"),
        ("push", "options", "[1]", "`options` must be a JSON object such as {&quot;a&quot;: 1}"),
        ("set", "settings", "7", "`settings` must be a JSON object such as"),
    ] {
        let refused = browser.act("/queues/q", &[("do", do_), ("version", "0"), (field, value)]);
        assert!(refused.status == 400 && refused.body.contains(why), "{field}: {}", refused.body);
    }
    // An emptied field is not taken as unchanged.
    let version = server.job(&path[6..])["version"].to_string();
    for (field, priority, payload) in [("priority", "", "1"), ("payload", "5", "")] {
        let fields = [("do", "edit"), ("version", &*version), ("priority", priority), ("payload", payload)];
        let refused = browser.act(&path, &fields);
        assert!(refused.status == 400 && refused.body.contains(&format!("`{field}` must be JSON")), "{field}");
    }
}

/// The text of a field as a browser sends it back.
fn sent_back(page: &str, name: &str) -> String {
    let field = page.split(&format!("<textarea name=\"{name}\"")).nth(1).unwrap_or_else(|| panic!("no field: {page}"));
    let text = field.split_once('>').unwrap().1.split("</textarea>").next().unwrap();
    let text = text.replace("&quot;", "\"").replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
    text.replace('\n', "\r\n")
}

#[test]
fn a_payload_that_was_not_edited_stays_byte_for_byte() {
    let server = Server::start();
    let browser = Browser::new(&server);
    let push = |payload: &str| {
        let body = format!("{{\"delay\":\"1h\",\"payload\":{payload}}}");
        server.send("POST", "/v1/queues/q/jobs", &[], &body).expect(201)["id"].as_str().unwrap().to_owned()
    };
    let stored = |id: &str| server.get(&format!("/v1/jobs/{id}")).body;
    let edit = |id: &str, fields: &[(&str, &str)]| {
        let version = server.job(id)["version"].to_string();
        let edited = browser.act(&format!("/jobs/{id}"), &[&[("do", "edit"), ("version", &version)], fields].concat());
        assert_eq!(edited.status, 303, "{}", edited.body);
    };
    let joined = "👩\u{200d}👧";
    for payload in [
        &*format!("{{\n  \"who\": \"{joined} & <b>\",\n\t\"n\": 1.00000000000000000001}}"),
        "{\r\n  \"order\" : 17\r\n}",
    ] {
        let id = push(payload);
        let field = sent_back(&browser.get(&format!("/jobs/{id}")).body, "payload");
        edit(&id, &[("priority", "5"), ("payload", &field)]);
        assert_eq!(server.job(&id)["priority"], 5);
        assert!(stored(&id).contains(&format!("\"payload\":{payload}")), "{}", stored(&id));
        // What was edited has plain line ends.
        edit(&id, &[("priority", "5"), ("payload", "[1,\r\n2]")]);
        assert!(stored(&id).contains("\"payload\":[1,\n2]"), "{}", stored(&id));
    }
    // What cannot be seen cannot be edited.
    let payload = "{\"text\": \"\u{202e}\"}";
    let id = push(payload);
    let page = browser.get(&format!("/jobs/{id}")).body;
    assert!(
        !page.contains("<textarea name=\"payload\"") && page.contains("This page cannot edit the payload"),
        "{page}"
    );
    edit(&id, &[("priority", "7")]);
    assert!(stored(&id).contains(&format!("\"payload\":{payload}")), "{}", stored(&id));
}

#[test]
fn the_payload_of_a_schedule_that_was_not_edited_stays_byte_for_byte() {
    let server = Server::start();
    let browser = Browser::new(&server);
    let payload = "{\r\n  \"text\": \"\u{202e}👩\u{200d}👧\"\r\n}";
    let body = format!("{{\"every\":\"1h\",\"job\":{{\"queue\":\"q\",\"payload\":{payload}}}}}");
    server.send("PUT", "/v1/schedules/s", &[], &body).ok();
    let field = sent_back(&browser.get("/schedules/s").body, "schedule").replace("\"1h\"", "\"3h\"");
    let version = server.get("/v1/schedules/s").ok()["version"].to_string();
    let edited = browser.act("/schedules/s", &[("do", "set"), ("version", &version), ("schedule", &field)]);
    assert_eq!(edited.status, 303, "{}", edited.body);
    let stored = server.get("/v1/schedules/s").body;
    assert!(stored.contains("\"every\":\"3h\"") && stored.contains(payload), "{stored}");
}

#[test]
fn names_with_spaces_and_line_ends_stay_as_they_are() {
    let server = Server::start();
    let browser = Browser::new(&server);
    let tagged = |tag: &str| server.push(&json!({"payload": 1, "delay": "1h", "tags": [tag]}));
    let (spaced, plain) = (tagged(" vip "), tagged("vip"));
    let path = "/jobs?tag=%20vip%20";
    assert!(browser.get(&format!("/jobs/{spaced}")).body.contains(path));
    let listed = browser.get(path).body;
    assert!(listed.contains(&spaced) && !listed.contains(&plain), "{listed}");
    let done = browser.act(path, &[("do", "delete_all"), ("confirmed", "yes")]);
    assert_eq!(done.header("location"), Some("/jobs?tag=+vip+&done=deleted.1"));
    assert_eq!(server.job(&plain)["state"], "scheduled");
    server.put("/v1/locks/a%0Ab", &json!({"owner": "o\n", "ttl": "1h"})).ok();
    let page = browser.get("/locks").body;
    let lock = page.split("name=\"lock\" value=\"").nth(1).unwrap().split('"').next().unwrap().replace("&amp;", "&");
    assert!(!lock.contains('\n'), "{lock:?}");
    let done = browser.act("/locks", &[("do", "release"), ("lock", &lock)]);
    assert_eq!(done.header("location"), Some("/locks?done=released.1"), "{}", done.body);
}

#[test]
fn the_first_settings_of_a_queue_are_not_overwritten_unseen() {
    let server = Server::start();
    let browser = Browser::new(&server);
    let set =
        |version, settings| browser.act("/queues/q", &[("do", "set"), ("version", version), ("settings", settings)]);
    assert_eq!(set("0", r#"{"max_running": 3}"#).status, 303);
    let stale = set("0", r#"{"max_attempts": 9}"#);
    assert!(stale.status == 412 && stale.body.contains(">{&quot;max_attempts&quot;: 9}<"), "{}", stale.body);
    for (version, settings, problem) in [
        ("", "{}", "`version` must be"),
        ("x", "{}", "`version` must be"),
        ("1", "[1]", "`settings` must be a JSON object"),
        ("1", r#"{"max_running": 8, "max_running": 9}"#, "`max_running` is given twice"),
    ] {
        let refused = set(version, settings);
        assert!(refused.status == 400 && refused.body.contains(problem), "{settings}: {}", refused.body);
    }
    let settings = server.get("/v1/queues/q").ok()["settings"].clone();
    assert_eq!(settings, json!({"max_running": 3}));
}

/// Also if the page no longer has such a form, or cannot be shown.
#[test]
fn what_was_typed_is_not_lost() {
    let server = Server::start();
    let browser = Browser::new(&server);
    let id = server.push(&json!({"payload": 1, "delay": "1h"}));
    let path = format!("/jobs/{id}");
    let form = browser.form(&path);
    let edit = [("form", &*form), ("do", "edit"), ("version", "1"), ("priority", "5"), ("payload", "{\"mine\": 1}")];
    server.call(&format!("/v1/jobs/{id}/cancel")).ok();
    let cancelled = browser.send(&path, &edit);
    assert!(cancelled.status == 412 && cancelled.body.contains("{&quot;mine&quot;: 1}"), "{}", cancelled.body);
    assert_eq!(server.send("DELETE", &format!("/v1/jobs/{id}"), &[], "").status, 204);
    let gone = browser.send(&path, &edit);
    assert!(gone.status == 404 && gone.body.contains("{&quot;mine&quot;: 1}"), "{}", gone.body);
    let other = server.push(&json!({"payload": 1, "delay": "1h"}));
    let ticked = format!("{other}.{}", server.job(&other)["version"]);
    let wrong = browser.act("/jobs?queue=q", &[("do", "reschedule"), ("delay", "30 minuten"), ("job", &ticked)]);
    assert!(wrong.status == 400 && wrong.body.contains("value=\"30 minuten\""), "{}", wrong.body);
    assert!(wrong.body.contains(&format!("value=\"{ticked}\" checked")), "{}", wrong.body);
}

/// The first page shows a failed run for some seconds after somebody has retried it.
#[test]
fn only_a_job_that_failed_or_waits_for_its_next_attempt_is_retried_from_the_first_page() {
    let server = Server::start();
    let browser = Browser::new(&server);
    let id = server.push(&json!({"payload": 1}));
    let path = format!("/jobs/{id}");
    let retry = || browser.act(&path, &[("do", "retry_failed")]).header("location").unwrap().to_owned();
    for (is_final, done) in [(false, "run.1"), (true, "retried.1")] {
        let fail = json!({"message": "no disk", "final": is_final});
        server.post(&format!("/v1/leases/{}/fail", server.receipt()), &fail).ok();
        assert_eq!((retry(), &server.job(&id)["state"]), (format!("{path}?done={done}"), &json!("ready")));
    }
    let ready = server.job(&id);
    assert_eq!((retry(), server.job(&id)), (path.clone(), ready));
    server.post(&format!("/v1/leases/{}/complete", server.receipt()), &json!({})).ok();
    let succeeded = server.job(&id);
    assert_eq!((retry(), server.job(&id)), (path.clone(), succeeded));
}
