//! Pages of queues and schedules.

use super::server::Server;
use serde_json::{Value, json};

#[track_caller]
fn read(server: &Server, path: &str, field: &str, name: &str) -> Vec<Vec<String>> {
    let (mut pages, mut query) = (Vec::new(), "limit=2".to_owned());
    loop {
        let page = server.get(&format!("{path}?{query}")).ok();
        let names = page[field].as_array().unwrap().iter().map(|one| one[name].as_str().unwrap().to_owned());
        pages.push(names.collect());
        match &page["next_cursor"] {
            Value::String(cursor) => {
                query = format!("limit=2&cursor={}", cursor.replace('/', "%2F").replace('+', "%2B"));
            }
            end => {
                assert!(end.is_null(), "{page}");
                return pages;
            }
        }
    }
}

#[test]
fn pages_follow_each_other() {
    let server = Server::start();
    for name in ["c", "a/b+c", "b", "a", "d"] {
        server.push_to(&name.replace('/', "%2F"), &json!({"payload": 1}));
        let body = json!({"every": "1h", "job": {"payload": 1}});
        server.put(&format!("/v1/schedules/{}", name.replace('/', "%2F")), &body).ok();
    }
    let expected = [vec!["a", "a/b+c"], vec!["b", "c"], vec!["d"]];
    assert_eq!(read(&server, "/v1/queues", "queues", "queue"), expected);
    assert_eq!(read(&server, "/v1/schedules", "schedules", "name"), expected);
    for path in ["/v1/queues", "/v1/schedules"] {
        assert_eq!(server.get(path).ok()["next_cursor"], Value::Null);
        for wrong in ["limit=0", "limit=1001", "limit=-1", "page=2", "limit=1&limit=2"] {
            server.get(&format!("{path}?{wrong}")).problem(400, "invalid");
        }
    }
}
