//! The files of a package, at their places below a folder.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, ensure};

use super::{licences, materials, source::Source};
use crate::{
    run::{self, output},
    target,
};

/// The folder of configuration files.
const CONFIGURATION: &str = "etc/";
/// The program.
pub(super) const PROGRAM: &str = "usr/sbin/ratelimit";
/// The folder of licences.
pub(super) const DOCUMENTS: &str = "usr/share/doc/ratelimit";
/// The bill of materials.
pub(super) const BILL: &str = "usr/share/doc/ratelimit/bill-of-materials.cdx.json";
/// Completions of zsh, where Debian has them.
pub(super) const ZSH: &str = "usr/share/zsh/vendor-completions/_ratelimit";

/// Files of the sources, and their folders or names in a package.
const FILES: [(&str, &str); 15] = [
    ("dist/package/ratelimit.toml", "etc/ratelimit/ratelimit.toml"),
    ("dist/fail2ban/ratelimit.conf", "etc/fail2ban/action.d/ratelimit.conf"),
    ("dist/ratelimit.toml", "usr/share/ratelimit/ratelimit.toml"),
    ("dist/grafana.json", "usr/share/ratelimit/grafana.json"),
    ("dist/grafana-check.json", "usr/share/ratelimit/grafana-check.json"),
    ("dist/ratelimit.rules.yml", "usr/share/ratelimit/ratelimit.rules.yml"),
    ("dist/ratelimit-check.rules.yml", "usr/share/ratelimit/ratelimit-check.rules.yml"),
    ("dist/ansible/playbook.yml", "usr/share/ratelimit/ansible/playbook.yml"),
    ("dist/ansible/ratelimit.toml.j2", "usr/share/ratelimit/ansible/ratelimit.toml.j2"),
    ("dist/kubernetes/daemonset.yaml", "usr/share/ratelimit/kubernetes/daemonset.yaml"),
    ("dist/package/copyright", "usr/share/doc/ratelimit/copyright"),
    ("CHANGELOG.md", "usr/share/doc/ratelimit/CHANGELOG.md"),
    ("LICENSE-APACHE", "usr/share/doc/ratelimit/LICENSE-APACHE"),
    ("LICENSE-GPL", "usr/share/doc/ratelimit/LICENSE-GPL"),
    ("LICENSE-MIT", "usr/share/doc/ratelimit/LICENSE-MIT"),
];

/// Units, which name another folder of the program in the sources.
const UNITS: [&str; 2] = ["ratelimit.service", "ratelimit-check.service"];
const BUILT: &str = "/usr/local/sbin/ratelimit ";
const PACKAGED: &str = "/usr/sbin/ratelimit ";

/// Completions: the shell and the file.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "usr/share/bash-completion/completions/ratelimit"),
    ("zsh", ZSH),
    ("fish", "usr/share/fish/vendor_completions.d/ratelimit.fish"),
];

/// Returns whether this is a configuration file, which upgrades leave as the operator has changed it.
pub(super) fn is_configuration(file: &str) -> bool {
    file.starts_with(CONFIGURATION)
}

/// A folder with the files of a package.
#[derive(Debug)]
pub(super) struct Tree {
    pub(super) root: PathBuf,
}

impl Tree {
    /// Writes all files below `root`, which is emptied before.
    pub(super) fn build(source: &Source, binary: &Path, root: &Path) -> Result<Self> {
        target::renew(root)?;
        let tree = Self { root: root.to_owned() };
        tree.copy(binary, PROGRAM)?;
        for (file, place) in FILES {
            tree.copy(&source.root.join(file), place)?;
        }
        for unit in UNITS {
            let text = fs::read_to_string(source.root.join("dist").join(unit)).with_context(|| unit.to_owned())?;
            ensure!(text.contains(BUILT), "{unit} does not run {BUILT}");
            tree.write(&format!("usr/lib/systemd/system/{unit}"), text.replace(BUILT, PACKAGED).as_bytes())?;
        }
        let program = tree.root.join(PROGRAM);
        for (shell, place) in COMPLETIONS {
            let script = output(Command::new(&program).args(["completions", shell]))?;
            tree.write(place, script.as_bytes())?;
        }
        let manual = tree.root.join("usr/share/man/man8");
        run::run(Command::new(&program).arg("manual").arg(&manual))?;
        run::run(Command::new("gzip").args(["--no-name", "--best", "--recursive"]).arg(&manual))?;
        let parts = materials::parts(source)?;
        tree.write(BILL, materials::bill(source, &parts)?.as_bytes())?;
        tree.write(&format!("{DOCUMENTS}/LICENSES-THIRD-PARTY"), licences::texts(&parts)?.as_bytes())?;
        tree.copy(&licences::of_rust(source)?, &format!("{DOCUMENTS}/LICENSES-RUST.html"))?;
        run::run(Command::new("chmod").args(["--recursive", "u=rwX,go=rX"]).arg(&tree.root))?;
        Ok(tree)
    }

    /// Copies a file to its place.
    fn copy(&self, file: &Path, place: &str) -> Result<()> {
        let data = fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
        self.write(place, &data)?;
        let mode = fs::metadata(file)?.permissions();
        fs::set_permissions(self.root.join(place), mode).with_context(|| format!("cannot set the mode of {place}"))
    }

    fn write(&self, place: &str, data: &[u8]) -> Result<()> {
        let path = self.root.join(place);
        let folder = path.parent().context("a file has no folder")?;
        fs::create_dir_all(folder)
            .and_then(|()| fs::write(&path, data))
            .with_context(|| format!("cannot write {place}"))
    }

    /// Returns the paths of all files, from the root, in order.
    pub(super) fn files(&self) -> Result<Vec<String>> {
        let list =
            output(Command::new("find").arg(".").args(["-type", "f", "-printf", "%P\n"]).current_dir(&self.root))?;
        let mut files: Vec<_> = list.lines().map(str::to_owned).collect();
        files.sort();
        Ok(files)
    }
}
