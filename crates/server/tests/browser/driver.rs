//! A real Chromium, driven over WebDriver (<https://www.w3.org/TR/webdriver2/>).

use crate::http::client::{Connection, Reply, request};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use tempfile::TempDir;

/// WebDriver's key for an element.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// A browser with its own profile; it ends with this.
pub(crate) struct Browser {
    driver: Child,
    _stdout: BufReader<ChildStdout>,
    address: SocketAddr,
    session: String,
    _profile: TempDir,
}

/// Starts a driver, and reads its port; `None` if another program has taken that.
fn start_driver() -> Option<(Child, BufReader<ChildStdout>, u16)> {
    let mut driver = Command::new("chromedriver")
        .arg("--port=0")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("chromedriver is installed: `cargo xtask setup`");
    let mut stdout = BufReader::new(driver.stdout.take().unwrap());
    let mut said = String::new();
    while stdout.read_line(&mut said).unwrap() > 0 {
        if let Some((_, port)) = said.split_once("successfully on port ") {
            return Some((driver, stdout, port.trim().trim_end_matches('.').parse().unwrap()));
        }
    }
    driver.wait().unwrap();
    assert!(said.contains("port not available"), "chromedriver ended: {said}");
    None
}

impl Browser {
    /// Starts one with this preferred language.
    pub(crate) fn start(language: &str) -> Self {
        // The free port that it chooses may be taken before it listens.
        let started = (0..5).find_map(|_| start_driver());
        let (driver, stdout, port) = started.expect("chromedriver finds a port");
        let profile = tempfile::tempdir().unwrap();
        let arguments = [
            "--headless=new".to_owned(),
            "--no-sandbox".to_owned(),
            "--disable-gpu".to_owned(),
            "--disable-quic".to_owned(),
            "--disable-dev-shm-usage".to_owned(),
            "--no-first-run".to_owned(),
            "--disable-background-networking".to_owned(),
            "--disable-component-update".to_owned(),
            "--disable-sync".to_owned(),
            "--window-size=1280,900".to_owned(),
            format!("--lang={language}"),
            format!("--user-data-dir={}", profile.path().display()),
        ];
        let options = json!({
            "binary": "/usr/bin/chromium",
            "args": arguments,
            "prefs": {"intl.accept_languages": language},
        });
        let mut browser = Self {
            driver,
            _stdout: stdout,
            address: ([127, 0, 0, 1], port).into(),
            session: String::new(),
            _profile: profile,
        };
        let wanted =
            json!({"browserName": "chrome", "goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}});
        let session = browser.send("POST", "/session", &json!({"capabilities": {"alwaysMatch": wanted}}));
        session["sessionId"].as_str().unwrap().clone_into(&mut browser.session);
        browser
    }

    fn ask(&self, method: &str, path: &str, body: &Value) -> Reply {
        let mut connection = Connection::open(self.address);
        let text = if method == "POST" { body.to_string() } else { String::new() };
        connection.send(request(method, path, &[], &text));
        connection.reply()
    }

    fn send(&self, method: &str, path: &str, body: &Value) -> Value {
        let reply = self.ask(method, path, body);
        assert_eq!(reply.status, 200, "{method} {path} {body}: {}", reply.body);
        reply.json()["value"].clone()
    }

    fn post(&self, path: &str, body: &Value) -> Value {
        self.send("POST", &format!("/session/{}/{path}", self.session), body)
    }

    fn get(&self, path: &str) -> Value {
        self.send("GET", &format!("/session/{}/{path}", self.session), &Value::Null)
    }

    /// Opens a page, and waits until it is loaded.
    pub(crate) fn open(&self, url: &str) {
        self.post("url", &json!({ "url": url }));
    }

    pub(crate) fn url(&self) -> String {
        self.get("url").as_str().unwrap().to_owned()
    }

    /// Runs a script and returns its result.
    pub(crate) fn run(&self, script: &str) -> Value {
        self.post("execute/sync", &json!({"script": script, "args": []}))
    }

    /// The text that a reader sees; none while the page changes.
    pub(crate) fn text(&self) -> String {
        let session = format!("/session/{}", self.session);
        let body = json!({"using": "css selector", "value": "body"});
        let found = self.ask("POST", &format!("{session}/element"), &body);
        let Some(element) = found.json()["value"][ELEMENT].as_str().map(str::to_owned) else { return String::new() };
        let text = self.ask("GET", &format!("{session}/element/{element}/text"), &Value::Null);
        text.json()["value"].as_str().unwrap_or_default().to_owned()
    }

    /// The one element that a CSS selector finds first.
    fn find(&self, selector: &str) -> String {
        let found = self.post("element", &json!({"using": "css selector", "value": selector}));
        found[ELEMENT].as_str().unwrap().to_owned()
    }

    /// Clicks.
    pub(crate) fn click(&self, selector: &str) {
        self.act(selector, &[("click", json!({}))]);
    }

    /// Types into a field, replacing its text.
    pub(crate) fn fill(&self, selector: &str, text: &str) {
        self.act(selector, &[("clear", json!({})), ("value", json!({ "text": text }))]);
    }

    /// Acts on an element; starts over if the page replaced it meanwhile.
    fn act(&self, selector: &str, steps: &[(&str, Value)]) {
        'again: loop {
            let element = self.find(selector);
            for (step, body) in steps {
                let path = format!("/session/{}/element/{element}/{step}", self.session);
                let reply = self.ask("POST", &path, body);
                if reply.json()["value"]["error"] == "stale element reference" {
                    continue 'again;
                }
                assert_eq!(reply.status, 200, "{step} {selector}: {}", reply.body);
            }
            return;
        }
    }

    /// A command of Chromium's own protocol.
    pub(crate) fn tell(&self, command: &str, parameters: &Value) -> Value {
        self.post("goog/cdp/execute", &json!({"cmd": command, "params": parameters}))
    }

    pub(crate) fn set_scheme(&self, scheme: &str) {
        let features = json!([{"name": "prefers-color-scheme", "value": scheme}]);
        self.tell("Emulation.setEmulatedMedia", &json!({ "features": features }));
    }

    pub(crate) fn set_width(&self, width: u32) {
        let metrics = json!({"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false});
        self.tell("Emulation.setDeviceMetricsOverride", &metrics);
    }

    pub(crate) fn set_scripts(&self, are_on: bool) {
        self.tell("Emulation.setScriptExecutionDisabled", &json!({"value": !are_on}));
    }

    /// Console entries since the last call: messages, errors, and reports of the policy. Not those of the browser's own pages, such
    /// as that a slow machine makes their fonts late.
    pub(crate) fn console(&self) -> Vec<String> {
        let log = self.post("se/log", &json!({"type": "browser"}));
        let of_browser = |entry: &Value| entry["message"].as_str().is_some_and(|text| text.starts_with("chrome://"));
        log.as_array().unwrap().iter().filter(|entry| !of_browser(entry)).map(Value::to_string).collect()
    }

    /// The whole page as a picture.
    pub(crate) fn picture(&self, file: &Path) {
        self.capture(file, true);
    }

    /// What a reader sees of the page at first.
    pub(crate) fn picture_of_top(&self, file: &Path) {
        self.capture(file, false);
    }

    fn capture(&self, file: &Path, is_whole: bool) {
        let captured = self.tell("Page.captureScreenshot", &json!({"captureBeyondViewport": is_whole}));
        std::fs::write(file, STANDARD.decode(captured["data"].as_str().unwrap()).unwrap()).unwrap();
    }

    /// A second tab; returns both.
    pub(crate) fn new_tab(&self) -> [String; 2] {
        let first = self.get("window").as_str().unwrap().to_owned();
        let second = self.post("window/new", &json!({"type": "tab"}));
        [first, second["handle"].as_str().unwrap().to_owned()]
    }

    pub(crate) fn go_to(&self, tab: &str) {
        self.post("window", &json!({ "handle": tab }));
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        if !self.session.is_empty() {
            // Also after a failure: Chromium outlives a driver that is killed.
            let mut connection = Connection::open(self.address);
            connection.send(request("DELETE", &format!("/session/{}", self.session), &[], ""));
            connection.reply_without_end();
        }
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}
