//! `GET /docs`: the document as a page.

use super::client::request;
use super::server::Server;

fn page(server: &Server, host: &str) -> String {
    let text = String::from_utf8(request("GET", "/docs", &[], "")).unwrap();
    let mut connection = server.connect();
    connection.send(text.replace("host: localhost", &format!("host: {host}")).into_bytes());
    let reply = connection.reply();
    assert_eq!(reply.status, 200, "{}", reply.body);
    reply.body
}

/// The part of an operation.
fn section<'a>(page: &'a str, id: &str) -> &'a str {
    let (_, rest) = page.split_once(&format!("<section id=\"{id}\">")).unwrap_or_else(|| panic!("there is no {id}"));
    rest.split_once("</section>").unwrap().0
}

#[test]
fn its_commands_are_for_the_address_it_was_asked_for() {
    let server = Server::start();
    let shown = page(&server, "localhost:7301");
    assert!(section(&shown, "push").contains("http://localhost:7301/v1/queues/orders/jobs"), "{shown}");
    assert!(!shown.contains("127.0.0.1:7300"));
    assert!(page(&server, "127.0.0.1").contains("curl -fsS http://127.0.0.1/v1/queues"));
}

#[test]
fn it_begins_with_a_jobs_life() {
    let shown = page(&Server::start(), "localhost");
    let place = |id: &str| shown.find(&format!("<section id=\"{id}\">")).unwrap_or_else(|| panic!("there is no {id}"));
    let order = ["push", "reserve", "complete", "fail", "settle", "find_jobs", "change_job", "set_queue"].map(place);
    assert!(order.is_sorted(), "{order:?}");
    assert!(shown.contains("<a href=\"/\">Dashboard</a>"));
    for noise in ["/docs/style.css</code>", "schema-Star", "rustdoc"] {
        assert!(!shown.contains(noise), "{noise}");
    }
}

#[test]
fn it_shows_only_fields_that_are_accepted() {
    let shown = page(&Server::start(), "localhost");
    let body = |id: &str| section(&shown, id).split_once("<h4>Body").unwrap().1;
    let has = |id: &str, field: &str| body(id).contains(&format!("<td><code>{field}</code></td>"));
    for (here, anywhere, field) in [
        ("reserve", "reserve_anywhere", "queues"),
        ("take", "take_anywhere", "queues"),
        ("push", "push_anywhere", "queue"),
    ] {
        assert!(!has(here, field), "{here} has {field}");
        assert!(has(anywhere, field), "{anywhere} lacks {field}");
    }
    assert!(has("reserve", "worker") && has("push", "delay"));
}

#[test]
fn it_explains_each_error_once() {
    let shown = page(&Server::start(), "localhost");
    let push = section(&shown, "push");
    assert!(push.contains("href=\"#error-key_conflict\"") && !push.contains("#error-store_full"), "{push}");
    assert_eq!(shown.matches("id=\"error-store_full\"").count(), 1);
    for words in ["the answer names the limit", "The server cannot do it now", "409, 412"] {
        assert!(shown.contains(words), "{words}");
    }
    // Each link of the page leads somewhere.
    for link in shown.split("href=\"#").skip(1).filter_map(|rest| rest.split('"').next()) {
        assert!(shown.contains(&format!("id=\"{link}\"")), "#{link} leads nowhere");
    }
}
