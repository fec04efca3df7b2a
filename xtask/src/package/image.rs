//! An image without a container engine and without a registry: `packaging/Dockerfile`, built by buildah on a Debian that
//! mmdebstrap makes. Its first stage is not built, since the binary exists.

use std::path::PathBuf;
use std::process::Command;

use super::stage::Stage;
use super::{Packager, stage};
use crate::{process, repo};

const BASE: &str = "localhost/duetime-base";
const DEBIAN: &str = "bookworm";
/// The first stage of the Dockerfile leaves the binary there.
const BUILT: &str = "source/target/dist/duetime";
/// Debian's small images lack them, too.
const LEFT_OUT: [&str; 3] = ["/usr/share/doc/*", "/usr/share/man/*", "/usr/share/locale/*"];

/// Makes the image and tries it in a container; returns the archive.
pub(super) fn make(packager: &Packager) -> Result<PathBuf, String> {
    let stage = Stage::new(packager.folder.join("image"))?;
    let made = build(packager, &stage);
    // Some hundred MB.
    Stage::new(stage.path("")).and(made)
}

fn build(packager: &Packager, stage: &Stage) -> Result<PathBuf, String> {
    packager.strip(&stage.path("context").join(BUILT))?;
    let mut base = Command::new("mmdebstrap");
    base.args(["--quiet", "--variant=minbase", "--include=ca-certificates,tzdata"]);
    base.args(LEFT_OUT.map(|path| format!("--dpkgopt=path-exclude={path}"))).arg(DEBIAN).arg(stage.path("base.tar"));
    process::run(packager.timed(base))?;
    stage.write("Dockerfile", "FROM scratch\nADD base.tar /\nCMD [\"bash\"]\n")?;
    let tag = format!("localhost/duetime:{}", packager.version);
    // A chroot needs no runtime for containers.
    let common = ["--quiet", "--isolation=chroot", "--format=docker", "--timestamp", &packager.epoch];
    let mut base = buildah(stage, "build");
    base.args(common).args(["--tag", BASE]).arg(stage.path(""));
    process::run(base)?;
    let context = stage.path("context");
    let mut image = buildah(stage, "build");
    image.args(common).args(["--build-arg", &format!("BASE={BASE}"), "--tag", &tag]);
    image.arg(format!("--build-context=build={}", context.display()));
    image.arg("--file").arg(repo::root().join("packaging/Dockerfile")).arg(&context);
    process::run(image)?;
    try_out(stage, &tag)?;
    save(packager, stage, &tag)
}

/// Runs `packaging/test/image.sh` in a container without a network.
fn try_out(stage: &Stage, tag: &str) -> Result<(), String> {
    let mut from = buildah(stage, "from");
    from.args(["--name", "try", tag]);
    process::run(from)?;
    let mut run = buildah(stage, "run");
    let tests = repo::root().join("packaging/test");
    run.arg("--isolation=chroot").arg(format!("--volume={}:/test:ro", tests.display())).args(["try", "/test/image.sh"]);
    let mut alone = Command::new("unshare");
    alone
        .args(["--net", "sh", "-c", "ip link set lo up && exec \"$@\"", "sh"])
        .arg(run.get_program())
        .args(run.get_args());
    process::run(alone)
}

/// Writes the archive.
fn save(packager: &Packager, stage: &Stage, tag: &str) -> Result<PathBuf, String> {
    let name = format!("duetime-{}-image.tar", packager.version);
    let made = packager.folder.join(format!("{name}.gz"));
    let mut push = buildah(stage, "push");
    push.args(["--quiet", tag]);
    push.arg(format!("docker-archive:{}:duetime:{}", stage.path(&name).display(), packager.version));
    process::run(push)?;
    process::run(stage.command("gzip", ["-9n".to_owned(), name.clone()]))?;
    std::fs::rename(stage.path(&format!("{name}.gz")), &made).map_err(|error| stage::failed(&made, &error))?;
    Ok(made)
}

/// buildah, which keeps its images in the stage.
fn buildah(stage: &Stage, what: &str) -> Command {
    let mut command = Command::new("buildah");
    command.arg("--root").arg(stage.path("store")).arg("--runroot").arg(stage.path("run"));
    command.args(["--storage-driver=vfs", what]);
    command
}
