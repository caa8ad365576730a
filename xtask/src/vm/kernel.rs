//! Kernels for guests: packages of Debian, downloaded and unpacked, never installed.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, ensure};
use clap::ValueEnum;

use crate::run::output;

/// The package that depends on the current kernel of a release for virtual machines.
const META_PACKAGE: &str = "linux-image-cloud-amd64";

/// A kernel that the command line can name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Name {
    /// Too old: tests only that the product refuses it
    #[value(name = "5.10")]
    Old,
    /// The oldest supported kernel that the mirror has
    #[value(name = "6.1")]
    V6_1,
    /// A later long-term kernel
    #[value(name = "6.12")]
    V6_12,
    /// The newest kernel that the mirror has for a stable release
    #[value(name = "newest")]
    Newest,
}

impl Name {
    /// All kernels: the default.
    pub(super) const ALL: [Self; 4] = [Self::V6_1, Self::V6_12, Self::Newest, Self::Old];

    /// The name on the command line, and of the folder.
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Old => "5.10",
            Self::V6_1 => "6.1",
            Self::V6_12 => "6.12",
            Self::Newest => "newest",
        }
    }

    /// The suite of the mirror that has this kernel.
    fn suite(self) -> &'static str {
        match self {
            Self::Old => "bullseye",
            Self::V6_1 => "bookworm",
            Self::V6_12 => "trixie",
            Self::Newest => "trixie-backports",
        }
    }
}

/// A downloaded kernel.
#[derive(Debug)]
pub(crate) struct Kernel {
    /// Its name on the command line.
    pub(super) name: Name,
    /// Its full release, as `uname -r` prints it.
    pub(super) release: String,
    /// Folder of the unpacked package.
    root: PathBuf,
}

impl Kernel {
    /// Finds the kernel in `cache`, or downloads it. To get a newer package, delete the folder.
    pub(super) fn get(name: Name, cache: &Path) -> Result<Self> {
        let root = cache.join(name.text());
        if !root.is_dir() {
            println!("vm: downloading kernel {}", name.text());
            let partial = cache.join(format!("{}.partial", name.text()));
            let _ = fs::remove_dir_all(&partial);
            download(name, &partial)?;
            fs::rename(partial.join("root"), &root).context("cannot move the unpacked package")?;
            fs::remove_dir_all(&partial).context("cannot remove the package's archive")?;
        }
        let modules = fs::read_dir(root.join("lib/modules")).context("the package has no modules")?;
        let release = modules.flatten().find_map(|entry| entry.file_name().into_string().ok());
        Ok(Self { name, release: release.context("the package has no modules")?, root })
    }

    /// The image that QEMU boots.
    pub(super) fn image(&self) -> PathBuf {
        let usual = self.root.join("boot").join(format!("vmlinuz-{}", self.release));
        // Newer packages have the image beside the modules.
        if usual.exists() { usual } else { self.root.join("lib/modules").join(&self.release).join("vmlinuz") }
    }

    /// The files of these modules and their dependencies, in the order of loading. Built-in modules have no file.
    pub(super) fn modules(&self, names: &[&str]) -> Result<Vec<PathBuf>> {
        let mut modprobe = Command::new("modprobe");
        modprobe.arg("--dirname").arg(&self.root).args(["--set-version", &self.release, "--show-depends", "--all"]);
        // Module options of this machine must not apply to the guest.
        let text = output(modprobe.args(["--config", "/dev/null"]).args(names))?;
        let mut files: Vec<PathBuf> = Vec::new();
        for file in text.lines().filter_map(|line| line.strip_prefix("insmod ")).map(|file| file.trim().into()) {
            if !files.contains(&file) {
                files.push(file);
            }
        }
        Ok(files)
    }
}

/// Unpacks the package to `folder/root`. Uses a separate package list, so that the list of the machine does not change.
fn download(name: Name, folder: &Path) -> Result<()> {
    for list in ["lists/partial", "archives/partial"] {
        fs::create_dir_all(folder.join(list)).with_context(|| format!("cannot make {}", folder.display()))?;
    }
    let sources = folder.join("sources.list");
    let suite = name.suite();
    fs::write(&sources, format!("deb {} {suite} main\n", mirror()?)).context("cannot write the package source")?;
    let apt = |program: &str| {
        let mut command = Command::new(program);
        command.current_dir(folder).args(["-q", "-o", "APT::Sandbox::User=root", "-o", "Acquire::Languages=none"]);
        command.args(["-o", "Dir::Etc::SourceParts=/dev/null", "-o"]);
        command.arg(format!("Dir::Etc::SourceList={}", sources.display()));
        for setting in ["Dir::State", "Dir::Cache"] {
            command.arg("-o").arg(format!("{setting}={}", folder.display()));
        }
        command
    };
    output(apt("apt-get").args(["update", "--error-on=any"]))
        .with_context(|| format!("cannot read the package list of {suite}"))?;
    let depends = |package: &str| -> Result<Vec<String>> {
        let text = output(apt("apt-cache").args(["depends", "--important", package]))?;
        Ok(text.lines().filter_map(|line| line.trim().strip_prefix("Depends: ")).map(str::to_owned).collect())
    };
    // The kernel is the only dependency with a version in its name.
    let meta = depends(META_PACKAGE)?;
    let mut images = meta.iter().filter_map(|package| package.strip_prefix("linux-image-"));
    let release = images.find(|release| release.starts_with(|first: char| first.is_ascii_digit()));
    let release = release.with_context(|| format!("{suite} has no kernel behind {META_PACKAGE}"))?;
    // Newer kernels consist of several packages of the same release.
    let image = format!("linux-image-{release}");
    let mut packages = depends(&image)?;
    packages.retain(|package| package.ends_with(&format!("-{release}")));
    packages.push(image);
    output(apt("apt-get").arg("download").args(&packages)).context("cannot download the kernel")?;

    let root = folder.join("root");
    let files = fs::read_dir(folder).context("cannot list the downloads")?.flatten().map(|entry| entry.path());
    for archive in files.filter(|path| path.extension().is_some_and(|extension| extension == "deb")) {
        output(Command::new("dpkg").arg("-x").arg(archive).arg(&root))?;
    }
    // Newer packages have modules only below usr, where depmod and modprobe do not search.
    if !root.join("lib").exists() {
        std::os::unix::fs::symlink("usr/lib", root.join("lib")).context("cannot link lib to usr/lib")?;
    }
    output(Command::new("depmod").arg("--basedir").arg(&root).arg(release))?;
    Ok(())
}

/// The mirror of this machine's packages.
fn mirror() -> Result<String> {
    let mut targets = Command::new("apt-get");
    let text = output(targets.args(["indextargets", "--format", "$(CREATED_BY)|$(LABEL)|$(REPO_URI)"]))?;
    let mirror = text.lines().find_map(|line| line.strip_prefix("Packages|Debian|"));
    let mirror = mirror.context("this machine's apt has no Debian mirror (is it Debian? try `apt-get update`)")?;
    ensure!(!mirror.is_empty(), "apt names no address for its Debian mirror");
    Ok(mirror.to_owned())
}
