//! The output of commands, with a store of the test and with a server, compared with the files in `tests/golden/cli`.

mod jobs;
mod mistakes;
mod rest;

use crate::cli::server::Server;
use crate::cli::support::{Place, Ran, finish};
use crate::golden::{Golden, is_random};
use serde_json::Value;
use std::process::Command;

/// A place in which commands run, and the transcript of their output.
struct Shell {
    place: Option<Place>,
    server: Option<Server>,
    golden: Golden,
}

impl Shell {
    /// Commands on a store.
    fn on_store(name: &'static str) -> Self {
        Self { place: Some(Place::new()), server: None, golden: Golden::new(name) }
    }

    /// Runs the same commands on a store and on a server: both print the same.
    fn on_both(name: &'static str, commands: impl Fn(&mut Self)) {
        let mut shell = Self::on_store(name);
        commands(&mut shell);
        shell.golden.finish();
        Self::on_server(name, commands);
    }

    /// Runs commands whose leases end with their process on a store.
    fn on_server(name: &'static str, commands: impl Fn(&mut Self)) {
        let mut shell = Self { place: None, server: Some(Server::start()), golden: Golden::new(name) };
        commands(&mut shell);
        shell.golden.finish();
    }

    fn place(&self) -> &Place {
        self.place.as_ref().or(self.server.as_ref().map(|server| &server.place)).unwrap()
    }

    /// Runs a command, which is not written down.
    fn quietly(&self, arguments: &[&str], input: &str) -> Ran {
        let command = match &self.server {
            Some(server) => {
                let mut command = self.place().bare(arguments);
                command.env("DUETIME_SERVER", &server.url);
                command
            }
            None => self.place().command(arguments),
        };
        run_plainly(command, input)
    }

    /// Runs a command, and records its output.
    fn run(&mut self, arguments: &[&str]) -> Ran {
        self.feed(arguments, "")
    }

    fn feed(&mut self, arguments: &[&str], input: &str) -> Ran {
        let ran = self.quietly(arguments, input);
        self.show(arguments, &ran);
        ran
    }

    /// Runs a command that must print JSON, which is written down.
    fn json(&mut self, arguments: &[&str]) -> Value {
        let ran = self.run(&[arguments, &["--json"]].concat());
        serde_json::from_str(&ran.out).unwrap_or_else(|error| panic!("{error}: {arguments:?} {ran:?}"))
    }

    fn show(&mut self, arguments: &[&str], ran: &Ran) {
        let words: Vec<_> = arguments
            .iter()
            .map(|word| if word.contains([' ', '"']) { format!("'{word}'") } else { (*word).to_owned() })
            .collect();
        self.golden.add(&format!("$ duetime {}", words.join(" ")));
        // A client names its pushes only to a server.
        let is_own = |line: &str| line.strip_prefix("origin:").is_some_and(|origin| is_random(origin.trim()));
        for line in ran.out.lines().filter(|line| !is_own(line)) {
            match serde_json::from_str::<Value>(line) {
                Ok(json) if json.is_object() || json.is_array() => self.golden.add_json(&json),
                _ => self.golden.add(&plain(line)),
            }
        }
        let mut errors: Vec<&str> = ran.err.lines().collect();
        if arguments[0] == "work" {
            // The command's own lines come from elsewhere than the worker's.
            errors.sort_unstable();
        }
        errors.iter().for_each(|line| self.golden.add(&format!("! {}", plain(line))));
        if ran.code != 0 {
            self.golden.add(&format!("exit code {}", ran.code));
        }
        self.golden.blank();
    }

    /// Pushes a job, which is not written down, and returns its id.
    fn push(&self, arguments: &[&str]) -> String {
        let ran = self.quietly(&[&["push"], arguments, &["--json"]].concat(), "");
        let pushed: Value = serde_json::from_str(&ran.out).unwrap_or_else(|error| panic!("{error}: {ran:?}"));
        pushed["id"].as_str().unwrap().to_owned()
    }
}

/// Runs a command that knows nothing of the terminal and the place that it runs in.
fn run_plainly(mut command: Command, input: &str) -> Ran {
    command.env_remove("COLUMNS").env("TZ", "UTC");
    finish(command, input.as_bytes())
}

/// A line without column widths, which depend on the content, and without ages.
fn plain(line: &str) -> String {
    // The usage line contains the given options, and `--store` appears only here.
    let line = line.replace(" --store <PATH>", "");
    let bare = |word: &str| word.trim_matches([',', '(', ')', ':']).to_owned();
    let mut words: Vec<String> = line.split(' ').map(str::to_owned).collect();
    // `12 s ago` and `now` differ only in the pace of this run.
    while let Some(place) = words.iter().position(|word| bare(word) == "ago").filter(|place| *place >= 2) {
        words.splice(place - 2..=place, ["<ago>".to_owned()]);
    }
    for place in 0..words.len() {
        let after_due = place > 0 && words[place - 1] == "due" && bare(&words[place]) == "now";
        if words[place].starts_with("(now)") || after_due {
            words[place] = "<ago>".to_owned();
        }
    }
    while let Some(place) = words.iter().position(|word| bare(word) == "y").filter(|place| *place >= 2) {
        words.splice(place - 2..=place, ["<in years>".to_owned()]);
    }
    let line = words.join(" ");
    let indent = line.len() - line.trim_start().len();
    let columns = line.split("  ").map(str::trim).filter(|column| !column.is_empty());
    let columns: Vec<_> = columns.map(|column| if column == "now" { "<ago>" } else { column }).collect();
    format!("{}{}", &line[..indent], columns.join("  "))
}
