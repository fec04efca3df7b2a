//! Code that the measuring programs share.

#![allow(dead_code, reason = "each uses its own part of it")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::{SystemTime, UNIX_EPOCH};

pub(crate) fn unix_ms() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs_f64() * 1_000.0
}

/// The value below which this share of the sorted values lies.
pub(crate) fn percentile(sorted: &[f64], share: f64) -> f64 {
    sorted[((sorted.len() - 1) as f64 * share) as usize]
}

/// A Redis, asked about itself over a separate connection.
pub(crate) struct RedisServer(String);

/// The resources it has used so far.
#[derive(Clone, Copy)]
pub(crate) struct Cost {
    pub(crate) s: f64,
    pub(crate) commands: f64,
}

impl RedisServer {
    pub(crate) fn of(url: &str) -> Self {
        Self(url.trim_start_matches("redis://").split('/').next().expect("a host").to_owned())
    }

    /// Sends a command; returns its first line, or the text that it announces.
    pub(crate) fn command(&self, words: &[&str]) -> String {
        let mut stream = TcpStream::connect(&self.0).expect("connected");
        let mut request = format!("*{}\r\n", words.len());
        words.iter().for_each(|word| request += &format!("${}\r\n{word}\r\n", word.len()));
        stream.write_all(request.as_bytes()).expect("sent");
        let mut reader = BufReader::new(stream);
        let mut line = String::new();
        reader.read_line(&mut line).expect("answered");
        let line = line.trim_end().to_owned();
        let Some(length) = line.strip_prefix('$') else { return line };
        let mut text = vec![0; length.parse().expect("a length")];
        reader.read_exact(&mut text).expect("answered");
        String::from_utf8_lossy(&text).into_owned()
    }

    pub(crate) fn text(&self, field: &str) -> String {
        let info = self.command(&["INFO"]);
        info.lines().find_map(|line| line.strip_prefix(&format!("{field}:"))).expect("the field").trim().to_owned()
    }

    pub(crate) fn info(&self, field: &str) -> f64 {
        self.text(field).parse().expect("a number")
    }

    pub(crate) fn cost(&self) -> Cost {
        Cost {
            s: self.info("used_cpu_user") + self.info("used_cpu_sys"),
            commands: self.info("total_commands_processed"),
        }
    }
}
