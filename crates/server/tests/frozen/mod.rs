//! Data of the first release, opened by this version: stores of each kind, dumps and an export, kept in `tests/fixtures`.
//!
//! Each store is opened on clocks that show the moment at which it was made. Its jobs, queues, schedules and locks must be
//! what they were then. Then 13 hours pass, and everything that is due must run. `FIXTURES=write` regenerates the files
//! before they are opened. Their README says when that is allowed.

mod content;
mod fill;
mod life;
mod site;

use crate::cli::support::{Place, finish};
use content::Content;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde_json::Value;
use site::{Kind, Site};
use std::io::{Read as _, Write as _};
use std::path::PathBuf;

const VERSION: &str = "0.1.0";

/// The fixtures of one kind of store.
pub(crate) struct Fixture(PathBuf);

impl Fixture {
    fn of(kind: &str) -> Self {
        let fixtures = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures");
        Self([fixtures, VERSION, kind].iter().collect())
    }

    fn is_to_be_made() -> bool {
        let is_asked = std::env::var_os("FIXTURES").is_some_and(|what| what == "write");
        assert!(!is_asked || env!("CARGO_PKG_VERSION") == VERSION, "only {VERSION} can make its fixtures");
        is_asked
    }

    /// A name that ends with `.gz` is compressed.
    fn write(&self, name: &str, bytes: &[u8]) {
        std::fs::create_dir_all(&self.0).unwrap();
        let kept = if name.ends_with(".gz") {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
            encoder.write_all(bytes).unwrap();
            encoder.finish().unwrap()
        } else {
            bytes.to_vec()
        };
        std::fs::write(self.0.join(name), kept).unwrap();
    }

    fn read(&self, name: &str) -> Vec<u8> {
        let path = self.0.join(name);
        let kept = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        if !name.ends_with(".gz") {
            return kept;
        }
        let mut bytes = Vec::new();
        GzDecoder::new(kept.as_slice()).read_to_end(&mut bytes).unwrap();
        bytes
    }
}

/// Makes the fixture of this kind of store, if requested.
fn make(kind: Kind, fixture: &Fixture) {
    if !Fixture::is_to_be_made() {
        return;
    }
    let mut site = Site::new(kind);
    let content = fill::fill(&site);
    site.leave_an_outcome_unrecorded();
    site.leave_rows_in_the_inbox();
    content.write(fixture);
    site.save(fixture);
    if kind == Kind::File {
        let mut command = Place::new().bare(&["export", "--store", site.store().to_str().unwrap()]);
        command.current_dir("/").envs(site.environment());
        let exported = finish(command, b"");
        assert_eq!(exported.code, 0, "{exported:?}");
        fixture.write("export.jsonl.gz", exported.out.as_bytes());
    }
}

/// Opens a store of the first release with all that belongs to it.
fn opens(kind: Kind, name: &str) {
    let fixture = Fixture::of(name);
    make(kind, &fixture);
    let mut expected = Content::kept(&fixture);
    if kind == Kind::File {
        expected = expected.of_a_file();
    }
    let site = Site::restored(kind, &fixture, expected.made_at(), true);
    life::goes_on(&site, &expected, true);
}

/// Opens a dump of a database of the first release beside an empty Redis.
fn is_restored(kind: Kind, name: &str) {
    let fixture = Fixture::of(name);
    // Made by the test of the whole store, which may run at the same time.
    if Fixture::is_to_be_made() {
        return;
    }
    let expected = Content::kept(&fixture).without_redis();
    let site = Site::restored(kind, &fixture, expected.made_at(), false);
    life::goes_on(&site, &expected, false);
}

#[test]
fn a_file_of_the_first_release_opens() {
    opens(Kind::File, "file");
}

#[test]
fn redis_of_the_first_release_opens() {
    opens(Kind::Redis, "redis");
}

#[test]
fn mariadb_of_the_first_release_opens_with_its_redis() {
    opens(Kind::MariaDb, "mariadb");
}

#[test]
fn mariadb_of_the_first_release_opens_beside_an_empty_redis() {
    is_restored(Kind::MariaDb, "mariadb");
}

#[test]
fn postgres_of_the_first_release_opens_with_its_redis() {
    opens(Kind::Postgres, "postgres");
}

#[test]
fn postgres_of_the_first_release_opens_beside_an_empty_redis() {
    is_restored(Kind::Postgres, "postgres");
}

/// An export of the first release makes the store from which it was made: exported again, it is the same.
#[test]
fn an_export_of_the_first_release_imports() {
    let fixture = Fixture::of("file");
    if Fixture::is_to_be_made() {
        return;
    }
    let made_at = Content::kept(&fixture).made_at();
    let exported = fixture.read("export.jsonl.gz");
    let site = Site::at(Kind::File, made_at);
    let store = site.store();
    let run = |arguments: &[&str], input: &[u8]| {
        let mut command = Place::new().bare(&[arguments, &["--store", store.to_str().unwrap()]].concat());
        command.current_dir(store.parent().unwrap()).envs(site.environment());
        let ran = finish(command, input);
        assert_eq!(ran.code, 0, "{ran:?}");
        ran.out
    };
    let report: Value = serde_json::from_str(&run(&["import", "--json"], &exported)).unwrap();
    let lines = |text: &str| {
        let mut lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let head = lines.remove(0);
        assert!(head["duetime_export"].is_object(), "{head}");
        lines.sort_by_key(|line| (line["job"]["id"].to_string(), line.to_string()));
        lines
    };
    let expected = lines(std::str::from_utf8(&exported).unwrap());
    let jobs = expected.iter().filter(|line| line["job"].is_object()).count();
    assert_eq!((&report["imported"], &report["refused"]), (&jobs.into(), &0.into()), "{report}");
    content::contains(&expected.into(), &lines(&run(&["export"], b"")).into());
}
