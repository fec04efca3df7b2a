//! `cargo xtask package`: what people install, in `target/packages`: a Debian package, a tarball, an image.
//!
//! Each is made of one binary, of what this binary writes (manual pages, completions), and of files in `packaging`. Debian's
//! own programs pack them. A package and a tarball of the same commit and binary are the same bytes: times are the commit's.

mod image;
mod notices;
mod stage;

use std::path::{Path, PathBuf};
use std::process::Command;

use self::stage::Stage;
use crate::repo::{self, Metadata};
use crate::{process, setup};

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
    /// Package this binary; by default one is built with the profile `dist`, which takes 5 to 15 minutes the first time
    #[arg(long, global = true, value_name = "PATH")]
    binary: Option<PathBuf>,
    /// rustc's target that the binary is for, such as x86_64-unknown-linux-musl; by default this machine
    #[arg(long, global = true, value_name = "TRIPLE")]
    target: Option<String>,
}

#[derive(Clone, Copy, clap::Subcommand)]
enum What {
    /// A package for Debian and Ubuntu
    Deb,
    /// A tarball for any Linux, with its checksum
    Tar,
    /// An image for containers, tried in one, as an archive for `docker load`; needs root
    Image,
    /// Make all three, and try the package and the tarball on a clean Debian; needs root
    Test,
}

/// The revision of the Debian package; 1 for each new version.
const REVISION: u32 = 1;
const PACKAGE: &str = "duetime-server";
/// Root reads and writes the configuration, and the service's group reads it.
const MODES: [(&str, &str); 2] = [("etc/duetime", "0750"), ("etc/duetime/duetime.toml", "0640")];

/// Files of the repository, and their places in a Debian package.
const DEBIAN_FILES: [(&str, &str); 15] = [
    ("packaging/duetime.service", "usr/lib/systemd/system/duetime.service"),
    ("packaging/duetime-backup.service", "usr/lib/systemd/system/duetime-backup.service"),
    ("packaging/duetime-backup.timer", "usr/lib/systemd/system/duetime-backup.timer"),
    ("packaging/duetime.sysusers", "usr/lib/sysusers.d/duetime.conf"),
    ("packaging/duetime.tmpfiles", "usr/lib/tmpfiles.d/duetime.conf"),
    ("packaging/duetime.toml", "etc/duetime/duetime.toml"),
    ("packaging/debian/copyright", "usr/share/doc/duetime/copyright"),
    ("packaging/debian/lintian-overrides", "usr/share/lintian/overrides/duetime"),
    ("packaging/prometheus/alerts.yaml", "usr/share/doc/duetime/examples/alerts.yaml"),
    ("packaging/grafana/dashboard.json", "usr/share/doc/duetime/examples/dashboard.json"),
    ("packaging/grants-mysql.sql", "usr/share/doc/duetime/examples/grants-mysql.sql"),
    ("packaging/grants-postgres.sql", "usr/share/doc/duetime/examples/grants-postgres.sql"),
    ("packaging/redis-acl", "usr/share/doc/duetime/examples/redis-acl"),
    ("README.md", "usr/share/doc/duetime/README.md"),
    ("CHANGELOG.md", "usr/share/doc/duetime/changelog"),
];
/// Scripts of the Debian package and its list of configuration files.
const DEBIAN_CONTROL: [&str; 4] = ["conffiles", "postinst", "prerm", "postrm"];

/// Files of the repository, and their places in a tarball.
const TAR_FILES: [(&str, &str); 13] = [
    ("packaging/duetime.service", "duetime.service"),
    ("packaging/duetime-backup.service", "duetime-backup.service"),
    ("packaging/duetime-backup.timer", "duetime-backup.timer"),
    ("packaging/duetime.sysusers", "duetime.sysusers"),
    ("packaging/duetime.toml", "duetime.toml"),
    ("packaging/prometheus/alerts.yaml", "examples/alerts.yaml"),
    ("packaging/grafana/dashboard.json", "examples/dashboard.json"),
    ("packaging/grants-mysql.sql", "examples/grants-mysql.sql"),
    ("packaging/grants-postgres.sql", "examples/grants-postgres.sql"),
    ("packaging/redis-acl", "examples/redis-acl"),
    ("README.md", "README.md"),
    ("LICENSE-MIT", "LICENSE-MIT"),
    ("LICENSE-APACHE", "LICENSE-APACHE"),
];

/// Makes the requested packages, and prints their paths.
pub(crate) fn run(args: Args) -> Result<(), String> {
    let Args { what, binary, target } = args;
    let packager = Packager::new(binary, target)?;
    let made = match what {
        What::Deb => packager.deb(),
        What::Tar => packager.tar(),
        What::Image => image::make(&packager),
        What::Test => return packager.test(),
    }?;
    println!("{}", made.display());
    Ok(())
}

/// Packages this binary in each way, and tests the results.
pub(crate) fn test(binary: PathBuf) -> Result<(), String> {
    Packager::new(Some(binary), None)?.test()
}

struct Packager {
    metadata: Metadata,
    binary: PathBuf,
    /// rustc's target.
    target: String,
    version: String,
    /// The time of the last commit, in seconds since 1970.
    epoch: String,
    /// All is made in it.
    folder: PathBuf,
}

impl Packager {
    fn new(binary: Option<PathBuf>, target: Option<String>) -> Result<Self, String> {
        let metadata = Metadata::read()?;
        let version = metadata.members().find(|package| package.name == PACKAGE);
        let version = version.ok_or_else(|| format!("expected the package {PACKAGE}, found it not"))?.version.clone();
        let binary = match binary {
            Some(binary) => binary.canonicalize().map_err(|error| format!("{}: {error}", binary.display()))?,
            None => build(&metadata, target.as_deref())?,
        };
        let said = process::output(program(&binary, &["--version"]))?;
        if said.trim() != format!("duetime {version}") {
            return Err(format!("expected {} to be duetime {version}, got {}", binary.display(), said.trim()));
        }
        let mut log = Command::new("git");
        log.args(["log", "-1", "--format=%ct"]).current_dir(repo::root());
        let epoch = process::output(log)?.trim().to_owned();
        // `cargo package` has `target/package`.
        let folder = metadata.target_directory.join("packages");
        Ok(Self { metadata, binary, target: target.map_or_else(repo::host, Ok)?, version, epoch, folder })
    }

    /// A Debian package.
    fn deb(&self) -> Result<PathBuf, String> {
        let stage = Stage::new(self.folder.join("deb"))?;
        self.strip(&stage.path("usr/bin/duetime"))?;
        for (from, to) in DEBIAN_FILES {
            stage.copy(from, to)?;
        }
        stage.write("usr/share/doc/duetime/changelog.Debian", &self.changelog()?)?;
        stage.write("usr/share/doc/duetime/third-party.txt", &notices::all(&self.metadata, &self.target)?)?;
        self.write_manual(&stage, "usr/share/man/man1")?;
        self.write_completions(
            &stage,
            [
                "usr/share/bash-completion/completions/duetime",
                "usr/share/zsh/vendor-completions/_duetime",
                "usr/share/fish/vendor_completions.d/duetime.fish",
            ],
        )?;
        let packed =
            ["man/man1", "doc/duetime/changelog", "doc/duetime/changelog.Debian", "doc/duetime/third-party.txt"];
        let gzip = ["-9nr".to_owned()].into_iter().chain(packed.map(|path| format!("usr/share/{path}")));
        process::run(stage.command("gzip", gzip))?;
        let sums = process::output(stage.command("md5sum", stage.files()?))?;
        let kib = stage.kib()?;
        stage.write("DEBIAN/md5sums", &sums)?;
        stage.write("DEBIAN/control", &self.control(&stage.path("usr/bin/duetime"), kib)?)?;
        for name in DEBIAN_CONTROL {
            stage.copy(&format!("packaging/debian/{name}"), &format!("DEBIAN/{name}"))?;
        }
        stage.chmod("u=rwX,go=rX", ".")?;
        MODES.iter().try_for_each(|(path, mode)| stage.chmod(mode, path))?;
        let made = self.folder.join(format!("duetime_{}-{REVISION}_{}.deb", self.version, architecture()?));
        // One thread: how many there are shows in the bytes.
        let mut pack = Command::new("dpkg-deb");
        pack.args(["--root-owner-group", "--threads-max=1", "--build"]).arg(stage.path("")).arg(&made);
        process::run(self.timed(pack))?;
        Ok(made)
    }

    /// The control file, for a program that is already there.
    fn control(&self, program: &Path, kib: u64) -> Result<String, String> {
        let scratch = Stage::new(self.folder.join("libraries"))?;
        scratch.write("debian/control", "Source: duetime\n\nPackage: duetime\nArchitecture: any\n")?;
        let look = ["--warnings=0".to_owned(), "-O".to_owned(), format!("-e{}", program.display())];
        let found = process::output(scratch.command("dpkg-shlibdeps", look))?;
        let libraries = found.trim().strip_prefix("shlibs:Depends=");
        let libraries = libraries.ok_or_else(|| format!("expected `shlibs:Depends=`, got {found}"))?;
        let text = read("packaging/debian/control")?;
        Ok(text
            .replace("@VERSION@", &format!("{}-{REVISION}", self.version))
            .replace("@ARCHITECTURE@", &architecture()?)
            .replace("@SIZE@", &kib.to_string())
            .replace("@LIBRARIES@", libraries))
    }

    /// Debian's own changelog, which refers to ours.
    fn changelog(&self) -> Result<String, String> {
        let text = read("packaging/debian/control")?;
        let maintainer = text.lines().find_map(|line| line.strip_prefix("Maintainer: "));
        let maintainer = maintainer.ok_or("expected a maintainer in packaging/debian/control, found none")?;
        let mut date = Command::new("date");
        date.args(["--utc", "--rfc-email", &format!("--date=@{}", self.epoch)]).env("LC_ALL", "C");
        Ok(format!(
            "duetime ({}-{REVISION}) unstable; urgency=medium\n\n  * See changelog.gz.\n\n -- {maintainer}  {}",
            self.version,
            process::output(date)?
        ))
    }

    /// A tarball, and a file with its checksum beside it.
    fn tar(&self) -> Result<PathBuf, String> {
        let name = tar_name(&self.version, &self.target);
        let stage = Stage::new(self.folder.join(&name))?;
        self.strip(&stage.path("duetime"))?;
        for (from, to) in TAR_FILES {
            stage.copy(from, to)?;
        }
        stage.write("third-party.txt", &notices::all(&self.metadata, &self.target)?)?;
        self.write_manual(&stage, "man/man1")?;
        self.write_completions(&stage, ["bash", "zsh", "fish"].map(|shell| format!("completions/duetime.{shell}")))?;
        stage.chmod("u=rwX,go=rX", ".")?;
        let (tar, packed) = (format!("{name}.tar"), format!("{name}.tar.gz"));
        let mut pack = Command::new("tar");
        pack.args(["--create", "--format=gnu", "--sort=name", "--owner=0", "--group=0", "--numeric-owner"]);
        pack.arg(format!("--mtime=@{}", self.epoch)).args(["--file", &tar, &name]).current_dir(&self.folder);
        process::run(pack)?;
        let mut gzip = Command::new("gzip");
        gzip.args(["-9nf", &tar]).current_dir(&self.folder);
        process::run(gzip)?;
        let mut sum = Command::new("sha256sum");
        sum.arg(&packed).current_dir(&self.folder);
        let sum = process::output(sum)?;
        let made = self.folder.join(&packed);
        stage::write(&self.folder.join(format!("{packed}.sha256")), &sum)?;
        Ok(made)
    }

    /// All three, tried.
    fn test(&self) -> Result<(), String> {
        setup::install_for_packages()?;
        let (deb, tar) = (self.deb()?, self.tar()?);
        let mut lintian = Command::new("lintian");
        lintian.args(["--allow-root", "--fail-on", "error,warning"]).arg(&deb);
        process::run(lintian)?;
        let mut debian = Command::new(repo::root().join("packaging/test/debian.sh"));
        debian.args([&deb, &tar]);
        process::run(debian)?;
        image::make(self).map(drop)
    }

    /// The binary without its symbols.
    fn strip(&self, to: &Path) -> Result<(), String> {
        stage::make_parent(to)?;
        let mut strip = Command::new("strip");
        strip.args(["--strip-unneeded", "--remove-section=.comment", "--remove-section=.note", "-o"]);
        strip.arg(to).arg(&self.binary);
        process::run(strip)
    }

    fn write_manual(&self, stage: &Stage, folder: &str) -> Result<(), String> {
        let mut command = program(&self.binary, &["man"]);
        command.arg(stage.path(folder));
        process::run(command)
    }

    /// For bash, zsh and fish.
    fn write_completions(&self, stage: &Stage, paths: [impl AsRef<str>; 3]) -> Result<(), String> {
        for (shell, path) in ["bash", "zsh", "fish"].into_iter().zip(paths) {
            stage.write(path.as_ref(), &process::output(program(&self.binary, &["completions", shell]))?)?;
        }
        Ok(())
    }

    /// With the time of the last commit for all files.
    fn timed(&self, mut command: Command) -> Command {
        command.env("SOURCE_DATE_EPOCH", &self.epoch);
        command
    }
}

/// Builds the release binary; returns its path.
fn build(metadata: &Metadata, target: Option<&str>) -> Result<PathBuf, String> {
    eprintln!(
        "building with the profile `dist`, which takes 5 to 15 minutes the first time; `--binary target/release/duetime` \
         packages a binary that exists"
    );
    let mut build = process::cargo(["build", "--locked", "--profile", "dist", "-p", PACKAGE]);
    let mut folder = metadata.target_directory.clone();
    if let Some(target) = target {
        build.args(["--target", target]);
        folder.push(target);
    }
    process::run(build)?;
    Ok(folder.join("dist/duetime"))
}

/// The binary with these arguments, and none of the variables that it reads.
fn program(binary: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(binary);
    command.args(arguments).env_clear();
    command
}

/// Debian's name of this machine: `amd64`.
fn architecture() -> Result<String, String> {
    let mut ask = Command::new("dpkg");
    ask.arg("--print-architecture");
    Ok(process::output(ask)?.trim().to_owned())
}

/// A text file of the repository.
fn read(path: &str) -> Result<String, String> {
    std::fs::read_to_string(repo::root().join(path)).map_err(|error| format!("{path} cannot be read: {error}"))
}

/// `duetime-0.1.0-x86_64-linux-gnu`, for `x86_64-unknown-linux-gnu`.
fn tar_name(version: &str, target: &str) -> String {
    format!("duetime-{version}-{}", target.replace("-unknown-", "-"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tarball_is_named_after_its_target() {
        assert_eq!(tar_name("0.1.0", "x86_64-unknown-linux-gnu"), "duetime-0.1.0-x86_64-linux-gnu");
        assert_eq!(tar_name("0.1.0", "aarch64-unknown-linux-musl"), "duetime-0.1.0-aarch64-linux-musl");
    }

    #[test]
    fn what_is_packaged_is_there() {
        for (from, _) in DEBIAN_FILES.iter().chain(&TAR_FILES) {
            assert!(repo::root().join(from).is_file(), "{from}");
        }
        for name in DEBIAN_CONTROL {
            assert!(repo::root().join("packaging/debian").join(name).is_file(), "{name}");
        }
    }
}
