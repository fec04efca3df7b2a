//! The commands of `docs/operations/backup.md`, with their folders and addresses replaced by those of a test.
//!
//! `systemctl` does nothing: the test stops and starts its servers itself. Nothing else differs.

use super::blocking;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;

const DOCS: &str = include_str!("../../../../docs/operations/backup.md");
const REDIS: &str = "redis://127.0.0.1:6379";

/// The two blocks of a section: a backup and a restore.
pub(crate) struct Commands {
    folder: TempDir,
    back_up: String,
    restore: String,
    environment: Vec<(&'static str, String)>,
}

impl Commands {
    /// Those under this heading.
    pub(crate) fn of(heading: &str) -> Self {
        let begin = format!("\n## {heading}\n");
        let section = DOCS.split_once(&begin).expect("the heading is there").1;
        let section = section.split("\n## ").next().unwrap();
        let blocks = section.split("```sh\n").skip(1).map(|rest| rest.split_once("```").unwrap().0.to_owned());
        let blocks: Vec<String> = blocks.collect();
        let [back_up, restore] = <[String; 2]>::try_from(blocks).expect("a backup and a restore");
        let folder = tempfile::Builder::new().prefix("duetime-restore-").tempdir().unwrap();
        for name in ["store", "backups", "bin"] {
            std::fs::create_dir(folder.path().join(name)).unwrap();
        }
        let program = folder.path().join("bin/systemctl");
        std::fs::write(&program, "#!/bin/sh\n").unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_duetime"), folder.path().join("bin/duetime")).unwrap();
        Self { folder, back_up, restore, environment: Vec::new() }
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The store's file.
    pub(crate) fn store(&self) -> PathBuf {
        self.folder().join("store/duetime.db")
    }

    /// Sets the Redis that the restore uses.
    pub(crate) fn redis(&mut self, url: &str) {
        self.restore = self.restore.replace(REDIS, url);
    }

    pub(crate) fn set(&mut self, name: &'static str, value: impl Into<String>) {
        self.environment.push((name, value.into()));
    }

    pub(crate) async fn back_up(&self) {
        self.run(&self.back_up).await;
    }

    pub(crate) async fn restore(&self) {
        self.run(&self.restore).await;
    }

    /// Runs a script of which every command must succeed.
    pub(crate) async fn run(&self, script: &str) {
        let folder = self.folder();
        let script = script.replace("/var/lib/duetime", folder.join("store").to_str().unwrap());
        let script = script.replace("/var/backups/duetime", folder.join("backups").to_str().unwrap());
        // Its user is not there.
        let script = script.replace("-o duetime -g duetime ", "");
        let path = format!("{}:{}", folder.join("bin").display(), std::env::var("PATH").unwrap());
        let mut command = Command::new("sh");
        command.args(["-e", "-c", &script]).current_dir(folder).env_clear().env("PATH", path).env("HOME", folder);
        command.envs(self.environment.iter().map(|(name, value)| (name, value))).stdin(Stdio::null());
        let ran = blocking(move || command.output().unwrap()).await;
        assert!(ran.status.success(), "{script}: {}", String::from_utf8_lossy(&ran.stderr));
    }
}
