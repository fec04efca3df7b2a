//! Whether the command line does all that the HTTP API does.

use super::command;
use crate::http::operations;

/// The command for each route, with the option that it needs, if any.
const COMMANDS: &[(&str, &str, &str)] = &[
    ("POST", "/v1/queues/{queue}/jobs", "push"),
    ("POST", "/v1/jobs", "push"),
    ("POST", "/v1/take", "take"),
    ("POST", "/v1/queues/{queue}/reserve", "reserve"),
    ("POST", "/v1/queues/{queue}/take", "take"),
    ("GET", "/v1/queues", "queues list"),
    ("GET", "/v1/queues/{queue}", "queues show"),
    ("PUT", "/v1/queues/{queue}", "queues set"),
    ("GET", "/v1/history", "queues history"),
    ("GET", "/v1/due", "queues due"),
    ("GET", "/v1/failures", "queues failures"),
    ("POST", "/v1/queues/{queue}/pause", "queues pause"),
    ("POST", "/v1/queues/{queue}/resume", "queues resume"),
    ("POST", "/v1/queues/{queue}/purge", "queues purge"),
    ("DELETE", "/v1/queues/{queue}", "queues delete --force"),
    ("POST", "/v1/reserve", "reserve"),
    ("POST", "/v1/leases/{receipt}/complete", "complete"),
    ("POST", "/v1/leases/{receipt}/fail", "fail"),
    ("POST", "/v1/leases/{receipt}/release", "release"),
    ("POST", "/v1/leases/{receipt}/park", "park"),
    ("POST", "/v1/leases/{receipt}/extend", "extend"),
    ("POST", "/v1/leases/{receipt}/progress", "progress"),
    ("POST", "/v1/settle", "settle"),
    ("POST", "/v1/extend", "extend"),
    ("GET", "/v1/jobs", "list"),
    ("POST", "/v1/jobs/cancel", "cancel --tag"),
    ("POST", "/v1/jobs/retry", "retry --tag"),
    ("POST", "/v1/jobs/reschedule", "reschedule --tag"),
    ("POST", "/v1/jobs/delete", "delete --tag"),
    ("GET", "/v1/jobs/{id}", "get"),
    ("GET", "/v1/jobs/{id}/why", "why"),
    ("PATCH", "/v1/jobs/{id}", "update"),
    ("DELETE", "/v1/jobs/{id}", "delete"),
    ("POST", "/v1/jobs/{id}/cancel", "cancel"),
    ("POST", "/v1/jobs/{id}/retry", "retry"),
    ("POST", "/v1/jobs/{id}/run", "run"),
    ("GET", "/v1/locks", "locks list"),
    ("DELETE", "/v1/locks", "locks release --owner"),
    ("GET", "/v1/locks/{name}", "locks show"),
    ("PUT", "/v1/locks/{name}", "locks acquire"),
    ("PUT", "/v1/locks/{name}", "locks renew"),
    ("DELETE", "/v1/locks/{name}", "locks release"),
    ("GET", "/v1/schedules", "schedules list"),
    ("GET", "/v1/workers", "workers"),
    ("GET", "/v1/schedules/{name}", "schedules show"),
    ("PUT", "/v1/schedules/{name}", "schedules set"),
    ("GET", "/v1/schedules/{name}/next", "schedules next"),
    ("POST", "/v1/schedules/{name}/pause", "schedules pause"),
    ("POST", "/v1/schedules/{name}/resume", "schedules resume"),
    ("POST", "/v1/schedules/{name}/run", "schedules run"),
    ("DELETE", "/v1/schedules/{name}", "schedules delete"),
    ("GET", "/v1/events", "events"),
    ("GET", "/v1/attention", "status"),
    ("GET", "/healthz", "health --alive"),
    ("GET", "/readyz", "health"),
    ("GET", "/metrics", "metrics"),
];

/// Routes without a command, since only programs use them.
const NO_COMMANDS: [(&str, &str); 3] = [("GET", "/openapi.json"), ("GET", "/docs"), ("GET", "/docs/style.css")];

#[test]
fn every_route_has_a_command() {
    let routes = operations();
    for (method, path) in &routes {
        let has_command = COMMANDS.iter().any(|(m, p, _)| m == method && p == path);
        let needs_none = NO_COMMANDS.iter().any(|(m, p)| m == method && p == path);
        assert!(has_command != needs_none, "{method} {path} has no command: write one, and name it here");
    }
    let named = COMMANDS.iter().map(|(method, path, _)| (method, path)).chain(NO_COMMANDS.iter().map(|(m, p)| (m, p)));
    for (method, path) in named {
        assert!(routes.contains(&((*method).to_owned(), (*path).to_owned())), "{method} {path} is gone");
    }
}

#[test]
fn the_commands_are_there_and_print_json() {
    let mut all = command();
    all.build();
    for (_, path, words) in COMMANDS {
        let mut command = &all;
        for word in words.split(' ').filter(|word| !word.starts_with("--")) {
            command = command.find_subcommand(word).unwrap_or_else(|| panic!("no {words} for {path}"));
        }
        let has = |long: &str| command.get_arguments().any(|arg| arg.get_long() == Some(long));
        let option = words.split(' ').find_map(|word| word.strip_prefix("--"));
        assert!(has("json") && option.is_none_or(has), "{words}");
    }
}
