//! Requests of the API, and possible errors in them.

use super::common::Random;

/// A request, not yet wrong.
#[derive(Clone)]
pub(crate) struct Request {
    method: String,
    path: String,
    headers: Vec<(String, String)>,
    body: String,
}

impl Request {
    pub(crate) fn new(method: &str, path: &str, body: &str) -> Self {
        let headers = vec![("host".to_owned(), "localhost".to_owned())];
        Self { method: method.to_owned(), path: path.to_owned(), headers, body: body.to_owned() }
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let Self { method, path, headers, body } = self;
        let mut text = format!("{method} {path} HTTP/1.1\r\n");
        headers.iter().for_each(|(name, value)| text += &format!("{name}: {value}\r\n"));
        if !headers.iter().any(|(name, _)| name == "content-length" || name == "transfer-encoding") {
            text += &format!("content-length: {}\r\n", body.len());
        }
        (text + "\r\n" + body).into_bytes()
    }
}

const REQUESTS: [(&str, &str, &str); 54] = [
    (
        "POST",
        "/v1/queues/q/jobs",
        r#"{"payload":{"a":1},"delay":"30m","priority":7,"key":"k","on_conflict":"replace","tags":["t"]}"#,
    ),
    (
        "POST",
        "/v1/queues/q/jobs",
        r#"{"payload":1,"due_at":"2027-01-01T00:00:00Z","lease":"60s","expires":"24h","max_attempts":3}"#,
    ),
    (
        "POST",
        "/v1/queues/q/jobs",
        r#"{"payload_base64":"AP8=","retry":{"exponential":{"first":"1s","factor":2,"max":"1h","jitter":0.1}}}"#,
    ),
    (
        "POST",
        "/v1/queues/q/jobs",
        r#"[{"payload":1},{"payload":2,"retry":{"steps":["15s"]},"when_exhausted":{"move":"dead"}}]"#,
    ),
    (
        "POST",
        "/v1/queues/q/jobs",
        r#"{"payload":1,"target":{"url":"https://shop.example/","headers":{"a":"b"}},"trace":"x"}"#,
    ),
    ("POST", "/v1/queues/q/reserve", r#"{"limit":10,"lease":"60s","wait":"0s","request_id":"r"}"#),
    ("POST", "/v1/reserve", r#"{"queues":["q","p"],"limit":3}"#),
    ("POST", "/v1/queues/q/reserve", r#"{"jobs":[{"id":"117111681613568","version":3}]}"#),
    ("POST", "/v1/queues/q/take", r#"{"limit":10,"due_from":"2020-01-01T00:00:00Z","due_to":"2026-01-01T00:00:00Z"}"#),
    ("POST", "/v1/take", r#"{"queues":["q","p"],"limit":3}"#),
    ("POST", "/v1/jobs", r#"[{"queue":"q","payload":1},{"payload":2}]"#),
    ("POST", "/v1/leases/117111681613568.1781234567890/complete", r#"{"result":{"ok":true}}"#),
    ("POST", "/v1/leases/117111681613568.1781234567890/fail", r#"{"message":"no","final":false,"retry_after":"30s"}"#),
    ("POST", "/v1/leases/117111681613568.1781234567890/release", r#"{"delay":"1s"}"#),
    ("POST", "/v1/leases/117111681613568.1781234567890/extend", r#"{"lease":"60s"}"#),
    ("POST", "/v1/leases/117111681613568.1781234567890/progress", r#"{"percent":40,"note":"half"}"#),
    ("POST", "/v1/settle", r#"[{"receipt":"117111681613568.1781234567890","complete":{"result":1}}]"#),
    ("POST", "/v1/extend", r#"[{"receipt":"117111681613568.1781234567890","lease":"60s"}]"#),
    ("GET", "/v1/jobs?queue=q&state=ready,failed&limit=10&due_from=2020-01-01T00:00:00Z&cursor=x", ""),
    ("GET", "/v1/jobs/117111681613568", ""),
    ("PATCH", "/v1/jobs/117111681613568", r#"{"delay":"5m","priority":1,"payload":{"b":2}}"#),
    ("DELETE", "/v1/jobs/117111681613568", ""),
    ("POST", "/v1/jobs/117111681613568/cancel", ""),
    ("POST", "/v1/jobs/117111681613568/retry", ""),
    ("POST", "/v1/jobs/117111681613568/run", ""),
    ("POST", "/v1/jobs/cancel", r#"{"queue":"q","state":["ready"],"tag":"t"}"#),
    ("POST", "/v1/jobs/retry", r#"{"queue":"q","kind":"x"}"#),
    ("POST", "/v1/jobs/reschedule", r#"{"selection":{"queue":"q","state":["scheduled"]},"delay":"1h"}"#),
    ("POST", "/v1/jobs/reschedule", r#"{"selection":{"tag":"t"},"due_at":"2027-01-01T00:00:00Z"}"#),
    ("POST", "/v1/jobs/delete", r#"{"queue":"q","due_to":"2026-01-01T00:00:00Z"}"#),
    ("POST", "/v1/queues/q/reserve", r#"{"limit":1,"worker":"w"}"#),
    ("GET", "/v1/jobs/117111681613568/why", ""),
    ("GET", "/v1/workers?limit=10&cursor=w", ""),
    ("GET", "/v1/due?queue=q", ""),
    ("GET", "/v1/failures?queue=q", ""),
    ("GET", "/v1/history?queue=q&span=day", ""),
    ("GET", "/v1/queues?limit=3&cursor=p", ""),
    ("GET", "/v1/queues", ""),
    (
        "PUT",
        "/v1/queues/q",
        r#"{"retry":"default","max_attempts":5,"lease":"60s","max_running":50,"rate":{"per_second":100,"burst":20}}"#,
    ),
    (
        "PUT",
        "/v1/queues/q",
        r#"{"retention":{"succeeded":"24h","failed":"30d"},"target":{"queue":"p"},"when_exhausted":"keep"}"#,
    ),
    ("POST", "/v1/queues/q/pause", r#"{"for":"1ms"}"#),
    ("POST", "/v1/queues/q/purge", ""),
    ("DELETE", "/v1/queues/q?force=true", ""),
    (
        "PUT",
        "/v1/schedules/s",
        r#"{"cron":"0 3 * * *","time_zone":"Asia/Shanghai","job":{"queue":"q","payload":{}},"missed":"once"}"#,
    ),
    (
        "PUT",
        "/v1/schedules/s?dry_run=true",
        r#"{"every":"90s","job":{"payload":1},"overlap":"skip","start":"2027-01-01T00:00:00Z"}"#,
    ),
    ("POST", "/v1/schedules/s/pause", r#"{"for":"1h"}"#),
    ("POST", "/v1/schedules/s/resume", ""),
    ("POST", "/v1/schedules/s/run", ""),
    ("GET", "/v1/schedules/s/next?limit=100", ""),
    ("DELETE", "/v1/schedules/s", ""),
    ("PUT", "/v1/locks/l", r#"{"owner":"o","ttl":"100ms","wait":"1ms"}"#),
    ("DELETE", "/v1/locks/l?owner=o&fence=7", ""),
    ("GET", "/v1/locks?limit=3&cursor=x", ""),
    ("GET", "/metrics", ""),
];

/// Values that are hardly expected.
const VALUES: [&str; 24] = [
    "null",
    "true",
    "-1",
    "0",
    "1e308",
    "1e400",
    "18446744073709551616",
    "0.1",
    "\"\"",
    "\"\\u0000\"",
    "\"\\ud800\"",
    "[]",
    "{}",
    "[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]",
    "\"9999999999d\"",
    "\"-1s\"",
    "\"2026-02-30T00:00:00Z\"",
    "\"+275760-09-13T00:00:00Z\"",
    "\"\u{202e}\u{0}\"",
    "NaN",
    "'",
    "{\"a\":1,\"a\":2}",
    "\"0s\"",
    "9007199254740993",
];

const HEADERS: [(&str, &str); 22] = [
    ("content-type", "text/plain"),
    ("content-type", "application/json; charset=utf-16"),
    ("content-encoding", "gzip"),
    ("content-encoding", "br, gzip"),
    ("content-length", "18446744073709551615"),
    ("content-length", "-1"),
    ("content-length", "7"),
    ("transfer-encoding", "chunked"),
    ("transfer-encoding", "gzip, chunked"),
    ("expect", "100-continue"),
    ("if-match", "*"),
    ("if-match", "\"18446744073709551616\""),
    ("if-none-match", "\"7\", W/\"8\""),
    ("accept-encoding", "gzip;q=0, *;q=1"),
    ("authorization", "Bearer \u{ff}"),
    ("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"),
    ("request-id", "\t"),
    ("origin", "null"),
    ("host", "[::1"),
    ("range", "bytes=0-1"),
    ("upgrade", "h2c"),
    ("connection", "close, upgrade"),
];

/// A request with something wrong, mostly.
pub(crate) fn wrong(random: &mut Random) -> Vec<u8> {
    let (method, path, body) = *one(random, &REQUESTS);
    let mut request = Request::new(method, path, body);
    for _ in 0..random.within(0..3) {
        request.body = with_value(random, &request.body);
    }
    while random.percent(30) {
        let (name, value) = *one(random, &HEADERS);
        request.headers.push((name.to_owned(), value.to_owned()));
    }
    if random.percent(10) {
        request.path = String::from_utf8_lossy(&scrambled(random, request.path.into_bytes())).into_owned();
    }
    if random.percent(5) {
        request.method =
            (*one(random, &["GET", "PUT", "HEAD", "OPTIONS", "TRACE", "CONNECT", "get", "\u{1}"])).to_owned();
    }
    if random.percent(20) {
        request.body = String::from_utf8_lossy(&scrambled(random, request.body.into_bytes())).into_owned();
    }
    let bytes = request.bytes();
    if random.percent(10) { scrambled(random, bytes) } else { bytes }
}

fn one<'a, T>(random: &mut Random, of: &'a [T]) -> &'a T {
    let place = random.within(0..of.len() as u64);
    &of[usize::try_from(place).unwrap()]
}

/// The body with one value instead of another.
fn with_value(random: &mut Random, body: &str) -> String {
    let starts: Vec<usize> = body.match_indices([':', '[', ',']).map(|(place, _)| place + 1).collect();
    if starts.is_empty() {
        return (*one(random, &VALUES)).to_owned();
    }
    let start = *one(random, &starts);
    let length = body[start..].find([',', '}', ']']).unwrap_or(body.len() - start);
    format!("{}{}{}", &body[..start], one(random, &VALUES), &body[start + length..])
}

/// The bytes with some of them changed, gone, or twice there.
fn scrambled(random: &mut Random, mut bytes: Vec<u8>) -> Vec<u8> {
    for _ in 0..random.within(1..4) {
        let length = bytes.len() as u64;
        if length == 0 {
            break;
        }
        let place = usize::try_from(random.within(0..length)).unwrap();
        let end = usize::try_from((place as u64 + random.within(1..20)).min(length)).unwrap();
        match random.within(0..4) {
            0 => bytes[place] = random.any().to_le_bytes()[0],
            1 => drop(bytes.drain(place..end)),
            2 => bytes.splice(place..place, bytes[place..end].to_vec()).for_each(drop),
            _ => bytes.insert(place, random.any().to_le_bytes()[0]),
        }
    }
    bytes
}
