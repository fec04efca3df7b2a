//! Queues, schedules, locks, health.

use super::Api;
use serde_json::json;

#[test]
fn queues() {
    let mut api = Api::new("http/queues");
    api.get("/v1/queues");
    api.get("/v1/queues/none");
    api.put(
        "/v1/queues/orders",
        &json!({
            "retry": {"steps": ["15s", "15s", "30s"]}, "max_attempts": 5, "when_exhausted": {"move": "orders-dead"}, "lease": "60s",
            "max_running": 50, "rate": {"per_second": 100, "burst": 20}, "retention": {"succeeded": "24h", "failed": "30d"},
            "max_age": "2d", "max_crashes": 3,
            "target": {"url": "https://a.example/x", "method": "POST", "headers": {"x-a": "b"}, "timeout": "30s", "key": "k"},
        }),
    );
    api.put("/v1/queues/orders", &json!({"retry": null, "target": {"url": "https://a.example/x"}, "lease": "2m"}));
    api.put(
        "/v1/queues/orders",
        &json!({"target": {"queue": "mail"}, "rate": {"per_second": 0.5}, "retention": {"failed": "1d"}}),
    );
    api.put("/v1/queues/orders", &json!({}));
    api.put(
        "/v1/queues/orders",
        &json!({"target": null, "retention": null, "rate": null, "max_running": null, "lease": null}),
    );
    api.get("/v1/queues/orders");
    api.call("/v1/queues/orders/pause");
    api.call("/v1/queues/orders/resume");
    api.post("/v1/queues/orders/pause", &json!({"for": "2h"}));
    api.post("/v1/queues/orders/pause", &json!({"until": "2031-01-01T00:00:00Z"}));
    api.get("/v1/queues/orders");
    api.server.push_to("orders", &json!({"payload": 1, "delay": "1h"}));
    api.server.push_to("orders", &json!({"payload": 1, "priority": 1}));
    api.server.push_to("a", &json!({"payload": 1}));
    api.server.call("/v1/queues/a/take").ok();
    api.get("/v1/queues");
    api.get("/v1/queues?limit=1");
    api.get("/v1/queues?cursor=a&limit=1");
    api.send("DELETE", "/v1/queues/orders", &[], "");
    api.call("/v1/queues/orders/purge");
    api.send("DELETE", "/v1/queues/a?force=true", &[], "");
    for body in [
        json!({"retry": {"steps": ["1s", 5]}}),
        json!({"retry": {"steps": []}}),
        json!({"retry": {"linear": {}}}),
        json!({"retry": {"fixed": {}}}),
        json!({"retry": {"exponential": {"first": "1s", "factor": 0.1}}}),
        json!({"rate": 5}),
        json!({"rate": {"per_second": 0}}),
        json!({"rate": {"per_second": 1, "bust": 2}}),
        json!({"max_running": 0}),
        json!({"lease": "1ms"}),
        json!({"lease": 60}),
        json!({"when_exhausted": {"move": "-"}}),
        json!({"when_exhausted": "burn"}),
        json!({"target": {"url": "ftp://x"}}),
        json!({"target": {}}),
        json!({"target": {"url": "https://a.example", "timeout": "9h"}}),
        json!({"retention": {"succeeded": "1ms"}}),
        json!({"retention": {"kept": "1d"}}),
        json!({"max_attempts": -1}),
        json!({"colour": 1}),
        json!([]),
    ] {
        api.put("/v1/queues/orders", &body);
    }
    api.post("/v1/queues/orders/pause", &json!({"for": "1h", "until": "2031-01-01T00:00:00Z"}));
    api.post("/v1/queues/orders/pause", &json!({"for": "soon"}));
    api.get("/v1/queues?limit=x");
    api.get("/v1/history?span=week");
    api.get("/v1/due?from=x");
    api.get("/v1/failures");
    api.get("/v1/history?queue=-");
    api.golden.finish();
}

#[test]
fn schedules() {
    let mut api = Api::new("http/schedules");
    let nightly = json!({"cron": "0 3 * * *", "time_zone": "Asia/Shanghai", "missed": "once", "overlap": "allow",
        "start": "2031-03-17T00:00:00.000Z", "end": "2032-01-01T00:00:00Z", "job": {
        "queue": "reports", "kind": "nightly", "payload": {"a": 1}, "tags": ["x"], "lease": "2m", "retry": {"steps": ["1m"]}, "priority": 5,
        "max_attempts": 2, "max_age": "1d", "max_crashes": 3, "when_exhausted": "drop", "expires": "1h", "key": "n", "on_conflict": "keep"}});
    api.get("/v1/schedules");
    api.put("/v1/schedules/nightly?dry_run=true", &nightly);
    api.put("/v1/schedules/reports%2Fnightly", &nightly);
    api.get("/v1/schedules/reports%2Fnightly");
    let daily = json!({"every": "1h", "job": {"payload_base64": "/w=="}, "missed": "skip", "overlap": "skip"});
    api.put("/v1/schedules/daily", &daily);
    api.get("/v1/schedules");
    api.get("/v1/schedules?limit=1");
    api.send("PUT", "/v1/schedules/daily", &[("if-match", "\"99\"")], &daily.to_string());
    api.send("PUT", "/v1/schedules/daily", &[("if-none-match", "*")], &daily.to_string());
    api.get("/v1/schedules/reports%2Fnightly/next?limit=2");
    api.post("/v1/schedules/daily/pause", &json!({"for": "90m"}));
    api.post("/v1/schedules/daily/pause", &json!({}));
    api.get("/v1/schedules/daily/next");
    api.send("POST", "/v1/schedules/daily/run", &[("idempotency-key", "k")], "");
    api.send("POST", "/v1/schedules/daily/run", &[("idempotency-key", "k")], "");
    api.send("POST", "/v1/schedules/daily/resume", &[("if-match", "\"99\"")], "");
    api.post("/v1/schedules/daily/resume", &json!({}));
    api.post("/v1/schedules/none/resume", &json!({}));
    api.put(
        "/v1/schedules/daily",
        &json!({"every": "1h", "job": {"payload": 1}, "paused_until": "2031-01-01T00:00:00Z"}),
    );
    api.send("DELETE", "/v1/schedules/daily", &[("if-match", "\"99\"")], "");
    api.send("DELETE", "/v1/schedules/daily", &[], "");
    api.send("DELETE", "/v1/schedules/daily", &[], "");
    api.get("/v1/schedules/daily");
    let job = json!({"payload": 1});
    for body in [
        json!({"cron": "* * * *", "job": job}),
        json!({"cron": "0 0 30 2 *", "job": job}),
        json!({"every": "10ms", "job": job}),
        json!({"cron": "* * * * *", "time_zone": "Mars/Base", "job": job}),
        json!({"job": job}),
        json!({"every": "10s"}),
        json!({"cron": "* * * * *", "every": "10s", "job": job}),
        json!({"every": "10s", "time_zone": "UTC", "job": job}),
        json!({"every": "10s", "job": {"payload": 1, "queue": "-q"}}),
        json!({"every": "10s", "job": {}}),
        json!({"every": "10s", "job": job, "until": 1}),
        json!({"every": "10s", "job": {"payload": 1, "delay": "5s"}}),
        json!({"every": "10s", "job": {"payload": 1, "retry": {"steps": ["x"]}}}),
        json!({"every": "10s", "job": job, "missed": "all"}),
        json!({"every": "10s", "job": job, "start": "2031-01-02T00:00:00Z", "end": "2031-01-01T00:00:00Z"}),
        json!([]),
    ] {
        api.put("/v1/schedules/s", &body);
    }
    api.golden.finish();
}

#[test]
fn locks() {
    let mut api = Api::new("http/locks");
    api.get("/v1/locks/stock-42");
    let granted = api.put("/v1/locks/stock-42", &json!({"owner": "worker-7", "ttl": "2h", "wait": "5s"})).json();
    let fence = &granted["fence"];
    api.get("/v1/locks/stock-42");
    api.put("/v1/locks/stock-42", &json!({"owner": "worker-7", "ttl": "3h", "fence": fence}));
    api.put("/v1/locks/stock-42", &json!({"owner": "worker-7", "ttl": "2h"}));
    api.put("/v1/locks/stock-42", &json!({"owner": "worker-7", "fence": 1}));
    api.put("/v1/locks/a%20%2Fb", &json!({"owner": "me & you", "ttl": "2h"}));
    api.get("/v1/locks");
    api.get("/v1/locks?limit=1");
    api.send("DELETE", "/v1/locks/stock-42?owner=worker-7&fence=1", &[], "");
    api.send("DELETE", &format!("/v1/locks/stock-42?owner=worker-7&fence={fence}"), &[], "");
    api.send("DELETE", "/v1/locks?owner=me+%26%20you", &[], "");
    for body in [
        json!({}),
        json!({"owner": ""}),
        json!({"owner": 5}),
        json!({"owner": "x", "ttl": "1ms"}),
        json!({"owner": "x", "wait": "2h"}),
        json!({"owner": "x", "fence": 1, "wait": "1s"}),
        json!({"owner": "x", "fence": "y"}),
        json!({"owner": "x", "name": "y"}),
    ] {
        api.put("/v1/locks/l", &body);
    }
    api.send("DELETE", "/v1/locks", &[], "");
    api.send("DELETE", "/v1/locks/l?owner=x", &[], "");
    api.send("DELETE", "/v1/locks/l?owner=x&fence=y", &[], "");
    api.golden.finish();
}

#[test]
fn health_and_metrics() {
    let mut api = Api::new("http/server");
    api.get("/healthz");
    api.get("/readyz");
    api.get("/v1/attention");
    let id = api.push(&json!({"payload": 1}));
    api.server.receipt();
    api.get(&format!("/v1/jobs/{id}/why?x=1"));
    let metrics = api.server.get("/metrics");
    api.golden.add(metrics.header("content-type").unwrap());
    metrics.body.lines().filter(|line| line.starts_with('#')).for_each(|line| api.golden.add(line));
    api.golden.finish();
}
