//! Checks of the packages: the same bytes from another folder, and a life in a clean root.

use std::{
    fs,
    path::PathBuf,
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, bail, ensure};

use super::{deb, opened, packages, rpm, source::Source, tree::Tree};
use crate::{
    other,
    run::{self, run},
    setup, target,
};

/// The release of Debian in the clean root: the oldest with a systemd for the units.
const RELEASE: &str = "bookworm";

/// The version of the package that the test upgrades to. Its program has another layout of maps.
const NEXT: &str = "0.1.1";

/// The tests of packages in `tests/tests/commands/packages`. A filter without a test would succeed.
const TESTS: usize = 5;

/// Runs all checks.
pub(super) fn check(source: &Source, built: &[PathBuf]) -> Result<()> {
    let image = target::folder("dist")?.join("image");
    let version =
        run::output(Command::new("chroot").arg(image).args(["ratelimit", "--version"]).env("PATH", "/usr/sbin"))?;
    print!("dist: in the image: {version}");
    opened::check(source, built)?;
    compare(source, built)?;
    live(source, built)
}

/// Builds the packages from a copy of the sources without git. They must have the same bytes.
fn compare(source: &Source, built: &[PathBuf]) -> Result<()> {
    let folder = target::folder("dist-again")?;
    let root = folder.join("sources");
    target::renew(&root)?;
    let mut git = Command::new("git");
    let mut archive =
        git.arg("-C").arg(&source.root).args(["archive", &source.commit]).stdout(Stdio::piped()).spawn()?;
    let stream = archive.stdout.take().context("git has no output")?;
    run(Command::new("tar").arg("--extract").arg("--directory").arg(&root).stdin(stream))?;
    ensure!(archive.wait()?.success(), "git archive failed");
    let again = packages::build(&Source { root, ..source.clone() }, &folder)?;
    for (package, again) in built.iter().zip(&again) {
        let name = package.file_name().unwrap_or_default().display();
        if fs::read(package)? != fs::read(again)? {
            bail!(
                "{name}: the same sources in another folder give other bytes: compare {} with {}",
                package.display(),
                again.display()
            );
        }
        println!("dist: {name}: the same bytes from another folder");
    }
    target::renew(&folder)
}

/// Installs, upgrades, removes and purges the package in a clean root.
fn live(source: &Source, built: &[PathBuf]) -> Result<()> {
    setup::clean_root()?;
    let root = clean_root()?;
    other::build()?;
    let folder = target::folder("dist-next")?;
    let next = Source { version: NEXT, ..source.clone() };
    let tree = Tree::build(&next, &target::folder("debug")?.join("ratelimit-other"), &folder.join("tree"))?;
    let upgrade = folder.join("next.deb");
    deb::build(&next, &tree, &folder, &upgrade)?;
    let rpm_upgrade = folder.join(format!("ratelimit-{NEXT}-1.x86_64.rpm"));
    rpm::build(&next, &tree, &folder, &rpm_upgrade)?;
    let mut test = run::cargo();
    test.args([
        "test",
        "--locked",
        "--workspace",
        "--test",
        "commands",
        "--",
        "--ignored",
        "--nocapture",
        "packages::",
    ]);
    test.env("CLEAN_ROOT", root).env("NEXT_PACKAGE", upgrade).env("NEXT_RPM_PACKAGE", rpm_upgrade);
    let text = run::output(test.env("PACKAGE", &built[1]).env("RPM_PACKAGE", &built[2]))?;
    print!("{text}");
    ensure!(text.contains(&format!(" {TESTS} passed")), "there are not {TESTS} tests of packages any more");
    Ok(())
}

/// Returns a folder with a minimal Debian, which is made once.
fn clean_root() -> Result<PathBuf> {
    let root = target::folder("dist-root")?.join(RELEASE);
    if root.exists() {
        return Ok(root);
    }
    println!("dist: making a minimal {RELEASE} (a minute, once)");
    let unfinished = root.with_extension("unfinished");
    target::renew(&unfinished)?;
    run(Command::new("debootstrap").args(["--variant=minbase", "--include=systemd", RELEASE]).arg(&unfinished))?;
    fs::rename(&unfinished, &root).context("cannot rename the clean root")?;
    Ok(root)
}
