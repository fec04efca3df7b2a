//! Reads a page as a user does: starts its servers and runs its blocks, one after another, in one folder.
//!
//! A block `output` shows lines that the block before it prints, in this order; `…` stands for anything, and spaces for any
//! number of them. Ports, databases and folders are the test's; nothing else differs from the page. Variables that a block
//! exports stay set for the next ones.

use super::block::{Block, blocks};
use super::{root, text};
use crate::beanstalk::server::{Alone, free_port};
use crate::common::packages;
use duetime_store::testing::{MariaDbServer, PostgresServer, RedisServer};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The server's address in the pages.
const ADDRESS: &str = "127.0.0.1:7300";
const BEANSTALK: &str = "127.0.0.1:11300";
const BEANSTALK_PORT: (&str, &str) = ("-p 11300", "-p 0");
/// Otherwise it is quiet.
const BEANSTALK_LOGS: (&str, &str) = ("duetime beanstalk", "duetime beanstalk -V");
/// The address in the pages that receives webhooks.
const RECEIVER: &str = "127.0.0.1:8080";
/// The address of Debian's beanstalkd in the pages.
const OLD_BEANSTALK: &str = "old-host:11300";
const REDIS: &str = "redis://127.0.0.1:6379";
const POSTGRES: &str = "postgres://duetime_server:secret@127.0.0.1/duetime";
const MARIA_DB: &str = "mysql://duetime_server:secret@127.0.0.1/duetime";
const READMES: [&str; 2] = ["README.md", "README.zh-CN.md"];
/// How long a server may take to do what a page shows.
const LIMIT: Duration = Duration::from_secs(30);
/// The system chooses a port.
const ANY: &str = "127.0.0.1:0";
/// They have tests, or are tests themselves.
const TESTED_ELSEWHERE: [&str; 2] = ["cargo xtask", "cargo run -p"];
/// Carries the environment from one block to the next.
const BEGIN: &str = "if [ -e .exported ]; then . ./.exported; fi\n";
const END: &str = "\nexport -p > .exported\n";

/// Runs all blocks of this page, and panics at the first that fails. Answers what all of them printed.
pub(crate) fn read_along(page: &str) -> String {
    let blocks = blocks(&text(page));
    let mut reader = Reader::new(page);
    if !blocks.iter().any(Block::is_server) {
        reader.serve("duetime serve");
    }
    let mut printed = String::new();
    let mut last = String::new();
    let mut look = None;
    for block in &blocks {
        let place = format!("{page}:{}", block.line);
        if block.language == "output" {
            let end = Instant::now() + LIMIT;
            while let (Some(look), false) = (look, shows(block, &last).is_ok() || Instant::now() > end) {
                last = reader.run(&place, look);
            }
            shows(block, &last).unwrap_or_else(|line| panic!("{place}: expected the line `{line}`, got:\n{last}"));
        } else if block.is_receiver() {
            reader.receive(&block.text);
        } else if block.is_server() {
            reader.serve(&block.text);
        } else if block.is_run() && !TESTED_ELSEWHERE.iter().any(|start| block.text.starts_with(start)) {
            last = reader.run(&place, block);
            printed += &last;
            look = block.is_look().then_some(block);
        }
    }
    printed
}

/// Whether each line of the block is printed, in order; else the first that is not.
fn shows<'a>(block: &'a Block, printed: &str) -> Result<(), &'a str> {
    let mut lines = printed.lines();
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut is_there = |expected: &str| lines.any(|line| matches(&words(expected), &words(line)));
    block.text.lines().find(|expected| !is_there(expected)).map_or(Ok(()), Err)
}

/// Whether a line is as expected; `…` matches anything.
fn matches(expected: &str, line: &str) -> bool {
    let mut parts = expected.split('…').map(str::trim);
    let Some(mut rest) = line.strip_prefix(parts.next().unwrap_or_default()) else { return false };
    let parts: Vec<&str> = parts.collect();
    let Some((last, middle)) = parts.split_last() else { return rest.is_empty() };
    for part in middle {
        let Some((_, after)) = rest.split_once(part) else { return false };
        rest = after;
    }
    rest.ends_with(last)
}

struct Reader {
    folder: TempDir,
    /// Replacements: text in the page, and the real value.
    places: Vec<(String, String)>,
    /// The page's first server.
    address: Option<String>,
    // Before the stores: a server is gone before they are.
    servers: Vec<Server>,
    _redis: Option<RedisServer>,
    _beanstalkd: Option<Alone>,
    postgres: Option<PostgresServer>,
    maria_db: Option<MariaDbServer>,
}

impl Reader {
    /// With the stores that the page mentions.
    fn new(page: &str) -> Self {
        let page_text = text(page);
        let folder = tempfile::Builder::new().prefix("duetime-book-").tempdir().unwrap();
        prepare(folder.path(), READMES.contains(&page));
        let redis = page_text.contains(REDIS).then(RedisServer::start);
        let beanstalkd = page_text.contains(OLD_BEANSTALK).then(|| Alone::original(free_port(), &[]));
        let postgres = page_text.contains(POSTGRES).then(|| PostgresServer::with(true, &[]));
        let maria_db = page_text.contains(MARIA_DB).then(|| MariaDbServer::with(true, &[]));
        let mut places: Vec<_> = ["/var/lib/duetime", "/var/backups/duetime"]
            .map(|path| (path.to_owned(), folder.path().join(&path[1..]).display().to_string()))
            .into();
        places.extend(redis.iter().map(|server| (REDIS.to_owned(), server.url())));
        places.extend(beanstalkd.iter().map(|server| (OLD_BEANSTALK.to_owned(), server.address.to_string())));
        places.extend(postgres.iter().map(|server| (POSTGRES.to_owned(), server.url())));
        places.extend(maria_db.iter().map(|server| (MARIA_DB.to_owned(), server.url())));
        Self {
            folder,
            places,
            address: None,
            servers: Vec::new(),
            _redis: redis,
            _beanstalkd: beanstalkd,
            postgres,
            maria_db,
        }
    }

    /// Starts a server with this command, and waits until it prints its address.
    fn serve(&mut self, command: &str) {
        let words: Vec<&str> = command.split_whitespace().collect();
        let listen = words.windows(2).find(|pair| pair[0] == "--listen").map_or(ADDRESS, |pair| pair[1]);
        let script = command.replace(listen, ANY).replace(BEANSTALK, ANY);
        let script = script.replace(BEANSTALK_PORT.0, BEANSTALK_PORT.1).replace(BEANSTALK_LOGS.0, BEANSTALK_LOGS.1);
        let is_http = !command.starts_with(BEANSTALK_LOGS.0);
        let (mut http, mut beanstalk) = (None, None);
        self.start(&script, |line| {
            if let Some((_, address)) = line.split_once("  listening on http") {
                http = address.split_once("://").map(|(_, address)| address.to_owned());
            } else if let Some(address) = line.strip_prefix("  beanstalk ") {
                beanstalk = Some(address.trim().to_owned());
            } else if let Some((_, rest)) = line.split_once("::serve::beanstalk: listening on ") {
                beanstalk = rest.split(';').next().map(str::to_owned);
                return !is_http;
            }
            line.starts_with("  stop ")
        });
        self.places.extend(beanstalk.map(|address| (BEANSTALK.to_owned(), address)));
        // The first server at an address is the page's.
        if let Some(address) = http {
            self.address.get_or_insert_with(|| address.clone());
            self.places.push((listen.to_owned(), address));
        }
    }

    /// Starts a receiver of webhooks, and waits until it listens.
    fn receive(&mut self, command: &str) {
        let free = TcpListener::bind(ANY).unwrap().local_addr().unwrap().to_string();
        self.places.push((RECEIVER.to_owned(), free));
        self.start(command, |line| line.contains(" started"));
    }

    /// Starts a server, and waits until it reports that it is ready.
    fn start(&mut self, script: &str, mut is_ready: impl FnMut(&str) -> bool) {
        let mut shell = self.shell(&format!("{BEGIN}{}", self.placed(script)));
        let mut child = shell.env("DUETIME_LISTEN", ANY).process_group(0).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        self.servers.push(Server(child));
        let mut printed = String::new();
        let found = lines.any(|line| {
            let line = line.unwrap();
            printed += &format!("{line}\n");
            is_ready(&line)
        });
        std::thread::spawn(move || lines.for_each(drop));
        assert!(found, "expected a server that listens: {script}\nwhich printed:\n{printed}");
    }

    /// Runs a block that must succeed; returns its output.
    fn run(&self, place: &str, block: &Block) -> String {
        let script = self.placed(&block.text);
        let mut command = match &*block.language {
            "sh" => self.shell(&format!("{BEGIN}{script}{END}")),
            "sql" => {
                let postgres = self.postgres.as_ref().expect("a page with SQL names a PostgreSQL");
                self.program("psql", &[&postgres.url(), "-v", "ON_ERROR_STOP=1", "-f", "-"])
            }
            "mysql" => {
                let port = self.maria_db.as_ref().expect("a page with MySQL names a MariaDB").port().to_string();
                self.program("mariadb", &["--host", "127.0.0.1", "--port", &port, "--user", "root", "duetime"])
            }
            "php" => self.program("php", &[]),
            "python" => self.program(packages::python(), &["-"]),
            _ => self.program(self.node(), &["--input-type=module", "-"]),
        };
        if block.language != "sh" {
            command.stdin(Stdio::piped());
        }
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{place}: {error}"));
        if let Some(mut stdin) = child.stdin.take() {
            stdin.write_all(script.as_bytes()).unwrap();
        }
        let ran = child.wait_with_output().unwrap();
        let printed = String::from_utf8_lossy(&ran.stdout).into_owned();
        assert!(ran.status.success(), "{place}: {} of\n{script}\nwhich printed:\n{printed}", ran.status);
        printed
    }

    /// A Node that finds the package.
    fn node(&self) -> PathBuf {
        let (package, modules) = (packages::node(), self.folder.path().join("node_modules"));
        fs::create_dir_all(&modules).unwrap();
        if !modules.join("duetime").exists() {
            symlink(&package, modules.join("duetime")).unwrap();
        }
        package.join("bin/node")
    }

    fn placed(&self, text: &str) -> String {
        self.places.iter().fold(text.to_owned(), |text, (from, to)| text.replace(from, to))
    }

    /// `set -e`, so that every command of a block counts. Standard error counts as printed.
    fn shell(&self, script: &str) -> Command {
        self.program("sh", &["-e", "-c", &format!("exec 2>&1\n{script}")])
    }

    fn program(&self, program: impl AsRef<OsStr>, arguments: &[&str]) -> Command {
        let folder = self.folder.path();
        let path = format!("{}:{}", folder.join("bin").display(), std::env::var("PATH").unwrap());
        let mut command = Command::new(program);
        command.args(arguments).current_dir(folder).env("PATH", path).env("HOME", folder);
        command.env_remove("DUETIME_STORE").env("NO_COLOR", "1").stdin(Stdio::null()).stdout(Stdio::piped());
        if let Some(address) = &self.address {
            command.env("DUETIME_SERVER", format!("http://{address}"));
        }
        command
    }
}

/// Readers have the program, the packages, and for a README a fresh clone.
fn prepare(folder: &Path, is_clone: bool) {
    for path in ["target/release", "bin", "var/lib/duetime", "var/backups/duetime"] {
        fs::create_dir_all(folder.join(path)).unwrap();
    }
    for path in ["examples", "packaging"] {
        symlink(root().join(path), folder.join(path)).unwrap();
    }
    fs::create_dir(folder.join("vendor")).unwrap();
    symlink(packages::php(), folder.join("vendor/autoload.php")).unwrap();
    symlink(env!("CARGO_BIN_EXE_duetime"), folder.join("target/release/duetime")).unwrap();
    if !is_clone {
        return symlink(env!("CARGO_BIN_EXE_duetime"), folder.join("bin/duetime")).unwrap();
    }
    let cargo = folder.join("bin/cargo");
    let script =
        "#!/bin/sh\n[ \"$1 $2 $3\" = 'run --release --' ] && shift 3 && exec target/release/duetime \"$@\"\nexit 1\n";
    fs::write(&cargo, script).unwrap();
    fs::set_permissions(&cargo, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Ends with the test, however that ends.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        // The server is in the shell's process group, whether it is the shell's child or has replaced it.
        let _ = killpg(Pid::from_raw(i32::try_from(self.0.id()).unwrap()), Signal::SIGTERM);
        let _ = self.0.wait();
    }
}

#[test]
fn an_expected_line_may_leave_parts_out() {
    assert!(
        matches("a … c", "a b c")
            && matches("a … c", "a c")
            && matches("…", "x")
            && matches("…b", "ab")
            && matches("ab", "ab")
    );
    assert!(!matches("a … c", "a b d") && !matches("ab", "abc") && !matches("…b…d", "acd"));
}
