//! The Dockerfile and the compose file, checked without a container engine.

use super::server::Server;
use super::service::named;
use super::{path, read, variables, yaml};
use crate::certificate::Certificate;
use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// The instructions of the Dockerfile, each in one line.
fn instructions() -> Vec<String> {
    let text = read("Dockerfile").replace("\\\n", " ");
    text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).map(str::to_owned).collect()
}

#[test]
fn the_image_is_of_an_ordinary_user_and_of_files_that_are_there() {
    let all = instructions();
    let last = all.iter().rposition(|line| line.starts_with("FROM ")).unwrap();
    for line in ["USER 7300:7300", "STOPSIGNAL SIGTERM", "VOLUME /var/lib/duetime", "ENTRYPOINT [\"duetime\"]"] {
        assert!(all[last..].iter().any(|other| other == line), "{line}: {all:?}");
    }
    let ignored = std::fs::read_to_string(path("../.dockerignore")).unwrap();
    let own = all.iter().filter(|line| line.starts_with("COPY ") && !line.contains("--from=")).skip(1);
    for line in own {
        let words: Vec<&str> = line.split_whitespace().filter(|word| !word.starts_with("--")).collect();
        assert!(path("..").join(words[1]).is_file(), "{line}");
        assert!(ignored.contains(&format!("\n!{}\n", words[1])), "{} is left out of the context", words[1]);
    }
    // All files that cargo needs are in the context, though it builds only one package.
    let workspace = std::fs::read_to_string(path("../Cargo.toml")).unwrap();
    let members = workspace.lines().find_map(|line| line.strip_prefix("members = ")).unwrap();
    for member in serde_json::from_str::<Vec<String>>(members).unwrap() {
        let folder = member.split('/').next().unwrap();
        assert!(ignored.contains(&format!("\n!{folder}\n")), "{folder} is left out of the context");
    }
    let known = variables();
    assert!(named(&read("Dockerfile")).iter().all(|name| known.contains(name)));
    // The oldest compiler that the workspace names, or a later one.
    let least = workspace.lines().find_map(|line| line.strip_prefix("rust-version = ")).unwrap().trim_matches('"');
    let first = all.iter().find(|line| line.starts_with("FROM ")).unwrap();
    assert!(first.starts_with(&format!("FROM rust:{least}-")), "{first} and {least}");
}

/// The exit code of the image's health check, in a container with these variables.
fn check(variables: &[(&str, &str)]) -> Option<i32> {
    let all = instructions();
    let line = all.iter().find(|line| line.starts_with("HEALTHCHECK ")).expect("a health check");
    let words: Vec<String> = serde_json::from_str(line.split_once(" CMD ").unwrap().1).unwrap();
    assert_eq!(words[0], "duetime");
    let mut command = Command::new(env!("CARGO_BIN_EXE_duetime"));
    command.args(&words[1..]).env_clear().envs(variables.iter().copied());
    let ran = command.output().unwrap();
    println!("{variables:?}: {ran:?}");
    ran.status.code()
}

#[test]
fn the_health_check_tells_a_server_from_none() {
    let server = Server::start();
    assert_eq!(check(&[("DUETIME_LISTEN", &server.address)]), Some(0));
    // As the image names it.
    let port = server.address.rsplit_once(':').unwrap().1.to_owned();
    let listen = format!("0.0.0.0:{port}");
    assert_eq!(check(&[("DUETIME_LISTEN", &listen)]), Some(0));
    drop(server);
    assert_eq!(check(&[("DUETIME_LISTEN", &listen)]), Some(75));
}

#[test]
fn the_health_check_speaks_tls_where_the_server_does() {
    // For a name that is not the container's.
    let (own, other) = (Certificate::of("DNS:queue.example"), Certificate::new());
    let (cert, key) = (own.path("server.pem"), own.path("server.key"));
    let server = Server::with(&["--tls-cert", cert.to_str().unwrap(), "--tls-key", key.to_str().unwrap()]);
    let of = |cert: &Path| {
        let key = cert.with_file_name("server.key");
        let (cert, key) = (cert.to_str().unwrap(), key.to_str().unwrap());
        check(&[("DUETIME_LISTEN", &server.address), ("DUETIME_TLS_CERT", cert), ("DUETIME_TLS_KEY", key)])
    };
    assert_eq!(of(&cert), Some(0));
    // The same in a file.
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("duetime.toml");
    let (listen, cert, key) = (&server.address, cert.display(), key.display());
    std::fs::write(&file, format!("listen = \"{listen}\"\n[tls]\ncert = \"{cert}\"\nkey = \"{key}\"\n")).unwrap();
    assert_eq!(check(&[("DUETIME_CONFIG", file.to_str().unwrap())]), Some(0));
    // Another program that listens there is not mistaken for the server.
    assert_eq!(of(&other.path("server.pem")), Some(75));
    assert_eq!(check(&[("DUETIME_LISTEN", &server.address)]), Some(75));
}

#[test]
fn the_compose_file_names_what_there_is_and_keeps_no_secret() {
    let compose = yaml(&read("compose.yaml"));
    let services = compose["services"].as_object().unwrap();
    let known = variables();
    for (name, service) in services {
        let image = service["image"].as_str().unwrap();
        assert!(image.contains(':'), "{name}: {image} has no tag");
        for (other, on) in service["depends_on"].as_object().into_iter().flatten() {
            assert_eq!(on["condition"], "service_healthy");
            assert!(!services[other]["healthcheck"]["test"].is_null(), "{name} waits for {other}, which cannot say");
        }
        for port in service["ports"].as_array().into_iter().flatten() {
            assert!(port.as_str().unwrap().starts_with("127.0.0.1:"), "{name}: open to others: {port}");
        }
        let environment = service["environment"].as_object().unwrap();
        for (variable, value) in environment {
            assert!(value.is_string(), "{name}: {variable} is no text for compose: {value}");
            assert!(!variable.starts_with("DUETIME_") || known.contains(variable), "{name}: {variable}");
            let is_secret = variable.ends_with("_PASSWORD") || matches!(value, Value::String(v) if v.contains("://"));
            let is_asked = value.as_str().unwrap().contains(":?set it in .env}");
            assert!(!is_secret || is_asked || value == "yes", "{name}: {variable} is written down");
        }
    }
    for name in ["duetime-1", "duetime-2"] {
        let service = &services[name];
        assert_eq!(service["read_only"], true);
        assert_eq!(service["build"]["dockerfile"], "packaging/Dockerfile");
        // The variables are understood, so that only the stores are missing.
        let mut command = Command::new(env!("CARGO_BIN_EXE_duetime"));
        command.arg("serve").env_clear();
        for (variable, value) in service["environment"].as_object().unwrap() {
            let (head, tail) = value.as_str().unwrap().split_once("${").unwrap_or((value.as_str().unwrap(), ""));
            let tail = tail.split_once('}').map_or("", |(_, tail)| tail).replace("redis:6379", "127.0.0.1:1");
            let tail = tail.replace("mariadb:3306", "127.0.0.1:1");
            command.env(variable, format!("{head}{tail}"));
        }
        let ran = command.output().unwrap();
        // Nobody answers; 2 would be a wrong command line.
        assert_eq!(ran.status.code(), Some(75), "{ran:?}");
    }
    let redis = services["redis"]["command"].to_string();
    assert!(redis.contains("--appendonly yes") && redis.contains("--maxmemory-policy noeviction"), "{redis}");
}
