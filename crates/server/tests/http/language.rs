//! Answers for people are in the language that they prefer; what programs read never changes.

use super::server::Server;
use super::tokens::Tokens;
use serde_json::{Value, json};

const CHINESE: (&str, &str) = ("accept-language", "zh-CN,zh;q=0.9,en;q=0.8");

/// A body without its words.
fn without_words(mut body: Value) -> Value {
    for word in ["title", "detail"] {
        body[word].take();
    }
    body
}

#[test]
fn problems_are_told_in_chinese() {
    let server = Server::start();
    server.push_to("q", &json!({"payload": 1, "key": "k", "delay": "1h"}));
    let conflict = r#"{"payload": 2, "key": "k", "on_conflict": "reject"}"#;
    for (method, path, body, title, detail) in [
        ("GET", "/v1/jobs/117111681613568", "", "没有这个任务", "任务 117111681613568 不存在"),
        ("GET", "/v1/nowhere", "", "没有这个路径", "/v1/nowhere"),
        ("POST", "/v1/queues/q/jobs", conflict, "唯一键已被占用", "队列 q 的唯一键 \"k\" 已被任务"),
        ("POST", "/v1/queues/q/jobs", r#"{"payload": 1, "delai": "5s"}"#, "请求不合法", "是不是想写 `delay`？"),
        ("POST", "/v1/queues/q/jobs", "{", "请求体不是合法的 JSON", "请求体第 1 行第 1 列：在对象中间就结束了"),
        ("GET", "/v1/jobs?limit=1&q", "", "请求不合法", "没有 `q`，可用的有："),
        ("GET", "/v1/queues/q?x=1", "", "请求不合法", "/v1/queues/q 没有查询参数，实际有 \"x=1\""),
    ] {
        let json = ("content-type", "application/json");
        let english = server.send(method, path, &[json], body);
        let chinese = server.send(method, path, &[json, CHINESE], body);
        assert_eq!(chinese.status, english.status, "{path}");
        assert_eq!(chinese.header("content-type"), Some("application/problem+json"));
        assert_eq!(chinese.header("content-language"), Some("zh-CN"));
        assert_eq!(english.header("content-language"), None);
        let [chinese, english]: [Value; 2] = [chinese, english].map(|reply| serde_json::from_str(&reply.body).unwrap());
        assert!(chinese["title"] == title && chinese["detail"].as_str().unwrap().contains(detail), "{chinese}");
        assert_ne!(chinese["title"], english["title"]);
        assert_eq!(without_words(chinese), without_words(english));
    }
}

#[test]
fn a_missing_right_is_told_in_chinese() {
    let tokens = Tokens::new();
    let token = tokens.create("shop", "push:orders");
    let server = tokens.server(&[]);
    let bearer = format!("Bearer {token}");
    let send = |method, path| server.send(method, path, &[CHINESE, ("authorization", &bearer)], "");
    for (method, path, detail) in [
        ("GET", "/v1/queues", "需要权限 `read`。此令牌的权限：push:orders"),
        ("POST", "/v1/queues/mail/jobs", "需要权限 `push`，范围为 \"mail\"。此令牌的权限：push:orders"),
    ] {
        let problem = send(method, path).problem(403, "forbidden");
        assert!(problem["title"] == "令牌没有权限" && problem["detail"] == detail, "{problem}");
    }
    let unknown = server.send("GET", "/v1/queues", &[CHINESE, ("authorization", "Bearer x")], "");
    assert_eq!(unknown.problem(401, "unauthorized")["detail"], "令牌不存在、已撤销或已过期");
}

#[test]
fn the_quality_of_a_language_decides() {
    let server = Server::start();
    for (header, is_chinese) in [("zh;q=0.1,en", false), ("en;q=0.1, zh", true), ("zh;q=0", false)] {
        let reply = server.send("GET", "/v1/nowhere", &[("accept-language", header)], "");
        assert_eq!(reply.header("content-language"), is_chinese.then_some("zh-CN"), "{header}");
    }
}

#[test]
fn reasons_are_told_in_chinese() {
    let server = Server::start();
    let later = server.push(&json!({"payload": 1, "delay": "1h"}));
    let unasked = server.push_to("other", &json!({"payload": 2}));
    for (id, code, detail) in [
        (later, "not_due", "尚未到期。"),
        (unasked, "no_worker", "没有 worker 向此服务器取过此队列的任务，统计开始于 20"),
    ] {
        let path = format!("/v1/jobs/{id}/why");
        let chinese = server.send("GET", &path, &[CHINESE], "").ok();
        let english = server.get(&path).ok();
        let reason = &chinese["reasons"][0];
        assert!(reason["code"] == code && reason["detail"].as_str().unwrap().contains(detail), "{chinese}");
        assert!(english["reasons"][0]["detail"].as_str().unwrap().is_ascii(), "{english}");
        assert_eq!(reason["until"], english["reasons"][0]["until"]);
    }
}

#[test]
fn the_problem_of_each_element_of_a_batch_is_told_in_chinese() {
    let server = Server::start();
    let json = ("content-type", "application/json");
    let live = server.push(&json!({"payload": 1, "delay": "1h"}));
    let settle = r#"[{"receipt": "117111681613568.1795168800251", "complete": {}}, {"receipt": "x", "complete": {}}]"#;
    let extend = r#"[{"receipt": "117111681613568.1795168800251"}]"#;
    let jobs = |more: &str| format!("{{\"jobs\": [{{\"id\": \"{live}\"}}]{more}}}");
    for (path, body, pointer, detail) in [
        (
            "/v1/queues/q/jobs",
            r#"[{"payload": 1}, {"payload": 2, "priority": "x"}]"#,
            "/1",
            "`priority` 不合法。应为：0 到",
        ),
        ("/v1/settle", settle, "/0", "租约 117111681613568.1795168800251 已失效"),
        ("/v1/settle", settle, "/1", "应为：`reserve` 返回的 receipt，例如 117111681613568"),
        ("/v1/extend", extend, "/0", "租约 117111681613568.1795168800251 已失效"),
        ("/v1/reserve", &jobs(""), "/refused/0", "尚未到期"),
        ("/v1/take", &jobs(""), "/refused/0", "尚未到期"),
    ] {
        let chinese = server.send("POST", path, &[json, CHINESE], body);
        assert_eq!(chinese.header("content-language"), Some("zh-CN"), "{path}");
        let chinese = chinese.ok().pointer(pointer).unwrap().clone();
        assert!(chinese["detail"].as_str().unwrap().contains(detail), "{path}: {chinese}");
        let english = server.send("POST", path, &[json], body);
        assert_eq!(english.header("content-language"), None);
        let english = english.ok().pointer(pointer).unwrap().clone();
        assert_ne!(chinese["title"], english["title"]);
        assert_eq!(without_words(chinese), without_words(english));
    }
}

#[test]
fn what_needs_attention_is_told_in_chinese() {
    let server = Server::start();
    server.post("/v1/queues/held/pause", &json!({})).ok();
    let items = |headers: &[(&str, &str)]| server.send("GET", "/v1/attention", headers, "").ok()["items"].clone();
    let (chinese, english) = (items(&[CHINESE])[0].clone(), items(&[])[0].clone());
    let detail = chinese["detail"].as_str().unwrap();
    assert!(detail.starts_with("held：队列已暂停，没有结束时间。暂停于 "), "{detail}");
    assert!(english["detail"].as_str().unwrap().is_ascii(), "{english}");
    assert_eq!(without_words(chinese), without_words(english));
}

#[test]
fn pages_show_problems_in_the_readers_language() {
    let server = Server::start();
    let page = server.send("GET", "/jobs/117111681613568", &[CHINESE, ("accept", "text/html")], "");
    assert!(page.status == 404 && page.body.contains("任务 117111681613568 不存在"), "{}", page.body);
}

#[test]
fn a_rule_with_a_day_and_a_weekday_is_explained() {
    let server = Server::start();
    for (name, cron, is_explained) in
        [("a", "0 9 13 * fri", true), ("b", "0 9 13 * +fri", false), ("c", "0 9 * * fri", false)]
    {
        let job = json!({"queue": "q", "payload": 1});
        server.put(&format!("/v1/schedules/{name}"), &json!({"cron": cron, "job": job})).ok();
        let page = server.get(&format!("/schedules/{name}")).body;
        assert_eq!(page.contains("Either its day or its weekday is enough."), is_explained, "{cron}: {page}");
    }
    let page = server.send("GET", "/schedules/a", &[CHINESE], "").body;
    assert!(page.contains("日期和星期满足其一就会执行。"), "{page}");
}
