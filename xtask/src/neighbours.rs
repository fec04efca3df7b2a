//! Our library beside other crates that link SQLite. A build can have only one of them (`links = "sqlite3"`), so that cargo must
//! find a version of rusqlite that fits both.
//!
//! Each neighbour is checked in a separate crate without a lock file, so cargo resolves it as for a new user. Then its program
//! from `tests/neighbours` is built and run.

use crate::process;
use crate::repo::{self, Metadata};
use std::fs;
use std::path::{Path, PathBuf};

struct Neighbour {
    /// The program, and what is asked of cargo.
    name: &'static str,
    version: &'static str,
    options: &'static str,
}

/// Libraries with their versions that people use, and the ends of our range of rusqlite.
const NEIGHBOURS: [Neighbour; 7] = [
    Neighbour { name: "sqlx", version: "0.8", options: SQLX },
    Neighbour { name: "sqlx", version: "0.9", options: SQLX },
    Neighbour { name: "sea-orm", version: "1", options: SEA_ORM },
    Neighbour { name: "sea-orm", version: "2", options: SEA_ORM },
    Neighbour { name: "diesel", version: "2", options: r#"default-features = false, features = ["sqlite"]"# },
    Neighbour { name: "rusqlite", version: "0.32", options: "" },
    Neighbour { name: "rusqlite", version: "0.43", options: "" },
];
const SQLX: &str = r#"default-features = false, features = ["postgres", "runtime-tokio", "sqlite"]"#;
const SEA_ORM: &str = r#"default-features = false, features = ["runtime-tokio", "sqlx-sqlite"]"#;

/// Resolves, builds and runs all of them, and says at the end which failed.
pub(crate) fn run() -> Result<(), String> {
    let all = Metadata::read()?.target_directory.join("neighbours");
    let failed: Vec<String> = NEIGHBOURS.iter().filter_map(|neighbour| try_one(&all, neighbour).err()).collect();
    if failed.is_empty() { Ok(()) } else { Err(failed.join("; ")) }
}

fn try_one(all: &Path, Neighbour { name, version, options }: &Neighbour) -> Result<(), String> {
    let told = |error: std::io::Error| format!("{name} {version}: {error}");
    let root = repo::root().canonicalize().map_err(told)?;
    let folder = all.join(format!("{name}-{version}"));
    // With the last run's lock file, what is resolved would depend on it.
    if folder.exists() {
        fs::remove_dir_all(&folder).map_err(told)?;
    }
    fs::create_dir_all(&folder).map_err(told)?;
    let comma = if options.is_empty() { "" } else { ", " };
    let manifest = format!(
        "[package]\nname = \"neighbour\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[workspace]\n\n\
         [[bin]]\nname = \"neighbour\"\npath = {program:?}\n\n\
         [dependencies]\nduetime = {{ path = {library:?} }}\n{name} = {{ version = \"{version}\"{comma}{options} }}\n\
         serde = \"1\"\ntokio = {{ version = \"1\", features = [\"macros\", \"rt\"] }}\n\n[profile.dev]\ndebug = false\nincremental = false\n",
        program = program(&root, name, version),
        library = root.join("crates/duetime"),
    );
    fs::write(folder.join("Cargo.toml"), manifest).map_err(told)?;
    println!("beside {name} {version}:");
    let mut command = process::cargo(["run"]);
    command.current_dir(&folder).env("CARGO_TARGET_DIR", all.join("target"));
    process::run(command).map_err(|error| format!("beside {name} {version}: {error}"))
}

/// SeaORM has a program for each version, because a call has another name in the second one.
fn program(root: &Path, name: &str, version: &str) -> PathBuf {
    let file = if name == "sea-orm" { format!("{name}_{version}") } else { name.to_owned() };
    root.join("tests/neighbours").join(format!("{}.rs", file.replace('-', "_")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_programs_are_what_the_guide_shows() {
        let read = |path: &str| fs::read_to_string(repo::root().join(path)).expect(path);
        let guide = read("docs/guides/sql-transaction.md");
        let blocks = guide.split("```rust,ignore\n").skip(1).map(|shown| shown.split_once("```").expect("a block").0);
        let programs = [("sqlx", "bind_row!"), ("sea_orm_1", "values_as"), ("diesel", "sql_query")];
        assert_eq!(blocks.clone().count(), programs.len());
        for (shown, (name, call)) in blocks.zip(programs) {
            let program = read(&format!("tests/neighbours/{name}.rs"));
            let program: Vec<&str> = program.lines().map(str::trim).collect();
            let missing: Vec<&str> = shown.lines().filter(|line| !program.contains(&line.trim())).collect();
            assert!(missing.is_empty() && shown.contains(call), "{name}: {missing:?}");
        }
    }
}
