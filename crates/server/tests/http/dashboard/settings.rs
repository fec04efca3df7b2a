//! The forms of a queue's settings and of schedules.

use super::Browser;
use crate::http::server::{Server, eventually};
use duetime_store::testing::FakeClock;
use serde_json::{Value, json};

/// The fields of a form as a browser sends them back unless they are edited.
fn fields_of(page: &str, action: &str) -> Vec<(String, String)> {
    let form =
        page.split("<form method=\"post\"").find(|form| form.contains(&format!("name=\"do\" value=\"{action}\"")));
    let form = form.unwrap_or_else(|| panic!("no form: {page}")).split("</form>").next().unwrap();
    let unescaped =
        |text: &str| text.replace("&quot;", "\"").replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
    let inputs = form.split("<input ").skip(1).map(|input| {
        let attribute = |name: &str| {
            let found = input.split('>').next().unwrap().split_once(&format!("{name}=\""));
            found.map_or("", |(_, rest)| rest.split('"').next().unwrap())
        };
        (attribute("name").to_owned(), unescaped(attribute("value")))
    });
    let areas = form.split("<textarea name=\"").skip(1).map(|area| {
        let (name, rest) = area.split_once('"').unwrap();
        let text = rest.split_once('>').unwrap().1.split("</textarea>").next().unwrap();
        (name.to_owned(), unescaped(text))
    });
    let selects = form.split("<select name=\"").skip(1).map(|select| {
        let (name, rest) = select.split_once('"').unwrap();
        let chosen =
            rest.split("<option value=\"").find(|option| option.split('>').next().unwrap().ends_with(" selected"));
        (name.to_owned(), chosen.unwrap().split('"').next().unwrap().to_owned())
    });
    inputs.chain(areas).chain(selects).collect()
}

/// Sends the form of a page, with these fields edited.
fn edit(browser: &Browser<'_>, path: &str, edited: &[(&str, &str)]) -> crate::http::client::Reply {
    let mut fields = fields_of(&browser.get(path).body, "edit");
    for (name, text) in edited {
        fields.retain(|(known, _)| known != name);
        fields.push(((*name).to_owned(), (*text).to_owned()));
    }
    let fields: Vec<(&str, &str)> = fields.iter().map(|(name, text)| (&**name, &**text)).collect();
    browser.send(path, &fields)
}

#[test]
fn a_setting_without_an_edit_stays_and_an_empty_field_is_the_default() {
    let server = Server::start();
    let browser = Browser::new(&server);
    let settings = || server.get("/v1/queues/q").ok()["settings"].clone();
    let all = json!({
        "max_running": 20, "rate": {"per_second": 5.0, "burst": 2}, "max_waiting": 9, "when_full": "drop", "retry": {"exponential": {"first": "1s", "factor": 2.0,
        "max": "1h", "jitter": 0.1}}, "max_attempts": 5, "when_exhausted": {"move": "dead"}, "jitter": 0.5, "max_age": "2d",
        "max_crashes": 3, "lease": "1m", "retention": {"succeeded": "1h", "failed": "2d"},
        "target": {"url": "https://shop.example/hook", "headers": {"x-shop": "1"}, "timeout": "5s"},
    });
    server.put("/v1/queues/q", &all).ok();
    let before = settings();
    let saved = edit(&browser, "/queues/q", &[]);
    assert_eq!(saved.status, 303, "{}", saved.body);
    assert_eq!(settings(), before, "nothing was edited");
    let saved = edit(
        &browser,
        "/queues/q",
        &[
            ("max_running", "7"),
            ("rate", ""),
            ("retry", "15s, 15s, 30s"),
            ("when_exhausted", "drop"),
            ("succeeded", ""),
            ("target", "https://shop.example/other"),
        ],
    );
    assert_eq!(saved.header("location"), Some("/queues/q?done=saved.1"), "{}", saved.body);
    let now = settings();
    assert_eq!((&now["max_running"], &now["rate"]), (&json!(7), &Value::Null));
    assert_eq!((&now["retry"], &now["when_exhausted"]), (&json!({"steps": ["15s", "15s", "30s"]}), &json!("drop")));
    assert_eq!(now["retention"], json!({"failed": "2d"}));
    let target = &now["target"];
    assert_eq!((&target["url"], &target["headers"]), (&json!("https://shop.example/other"), &json!({"x-shop": "1"})));
    for (name, text, why) in [
        ("rate", "fast", "`rate` must be a rate such as"),
        ("retry", "15", "`retry` must be `default`, `none`, steps such as"),
        ("max_running", "many", "`max_running`"),
        ("when_exhausted", "explode", "`when_exhausted` must be `keep`, `drop`"),
        ("target", "ftp://x", "`target"),
    ] {
        let refused = edit(&browser, "/queues/q", &[(name, text)]);
        assert!(refused.status == 400 && refused.body.contains(why), "{name}: {}", refused.body);
        assert!(refused.body.contains(&format!("value=\"{text}\"")), "it stays in the form");
    }
    assert_eq!(settings(), now);
}

#[test]
fn a_schedule_is_previewed_and_saved_from_its_fields() {
    let server = Server::start();
    let browser = Browser::new(&server);
    let put = r#"{"cron": "30 2 * * *", "time_zone": "Europe/Berlin", "start": "2027-03-01T00:00:00Z",
        "job": {"queue": "q", "payload": {"n": 1.0000000000000000001}, "priority": 3}}"#;
    server.send("PUT", "/v1/schedules/nightly", &[], put).ok();
    let shown = || server.get("/v1/schedules/nightly").body;
    let before = shown();
    let preview = edit(&browser, "/schedules/nightly", &[("preview", "yes"), ("cron", "0 9 1 * mon")]);
    assert_eq!(preview.status, 200);
    assert!(
        preview.body.contains("Either its day or its weekday is enough")
            && preview.body.contains("2027-03-01 09:00:00 +01:00 Europe/Berlin")
    );
    assert!(preview.body.contains("value=\"0 9 1 * mon\""), "it stays in the form");
    let wrong = edit(&browser, "/schedules/nightly", &[("preview", "yes"), ("cron", "0 9 1 *")]);
    assert!(wrong.status == 200 && wrong.body.contains("`cron` must be"), "{}", wrong.body);
    assert_eq!(shown(), before, "a preview saves nothing");
    server.call("/v1/schedules/nightly/pause").ok();
    let paused = browser.get("/schedules/nightly").body;
    assert!(paused.contains("This schedule is paused") && !paused.contains("It does not run again"), "{paused}");
    server.call("/v1/schedules/nightly/resume").ok();
    let saved = edit(&browser, "/schedules/nightly", &[("kind", "report"), ("missed", "skip")]);
    assert_eq!(saved.header("location"), Some("/schedules/nightly?done=saved.1"), "{}", saved.body);
    let now = server.get("/v1/schedules/nightly").ok()["schedule"].clone();
    assert_eq!(
        (&now["job"]["kind"], &now["missed"], &now["job"]["priority"]),
        (&json!("report"), &json!("skip"), &json!(3))
    );
    assert_eq!((&now["start"], &now["cron"]), (&json!("2027-03-01T00:00:00.000Z"), &json!("30 2 * * *")));
    assert!(shown().contains("1.0000000000000000001"), "the payload was not edited");
}

#[test]
fn queues_are_listed_with_what_is_special_about_them() {
    let folder = tempfile::tempdir().unwrap();
    let clock = FakeClock::new(folder.path());
    let server = Server::with_clock(&clock, &["--store", "memory"]);
    server.put("/v1/queues/full", &json!({"max_running": 1})).ok();
    server.call("/v1/queues/held/pause").ok();
    for queue in ["full", "full", "idle"] {
        server.push_to(queue, &json!({"payload": 1}));
    }
    server.post("/v1/queues/full/reserve", &json!({"worker": "w"})).ok();
    let page = server.get("/queues").body;
    let row_of = |page: &str, queue: &str| {
        let row = page.split("<tr>").find(|row| row.contains(&format!("href=\"/queues/{queue}\""))).unwrap();
        row.split("</tr>").next().unwrap().to_owned()
    };
    let row = |queue: &str| row_of(&page, queue);
    assert!(row("full").contains("limited 1/1") && row("held").contains("paused"), "{page}");
    let is_red = |row: &str| row.contains("<strong class=\"bad\">0</strong>");
    assert!(!is_red(&row("idle")), "a worker may come: {}", row("idle"));
    let lately = &server.get("/v1/queues/full").ok()["lately"];
    assert_eq!((&lately["workers"], &lately["started"]), (&json!(1), &json!(1)), "{lately}");
    let at = |queue: &str| page.find(&format!("href=\"/queues/{queue}\"")).unwrap();
    assert!(at("full") < at("idle") && at("idle") < at("held"), "the job that has waited longest comes first");
    clock.set(20_000);
    let mut page = String::new();
    eventually(|| {
        page = server.get("/queues").body;
        is_red(&row_of(&page, "idle"))
    });
    assert!(!is_red(&row_of(&page, "full")) && !is_red(&row_of(&page, "held")), "{page}");
    let attention = server.get("/v1/attention").ok();
    let lacking: Vec<_> =
        attention["items"].as_array().unwrap().iter().filter(|item| item["kind"] == "no_worker").collect();
    assert_eq!(lacking.iter().map(|item| &item["queue"]).collect::<Vec<_>>(), ["idle"], "the page and the list agree");
}
