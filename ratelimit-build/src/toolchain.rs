//! Finds the compiler of the kernel side: a packaged one with a prebuilt `core`, or a nightly with rust-src.

use std::{
    env, fmt,
    path::{Path, PathBuf},
    process::Command,
};

use crate::pins::{CARGO_HOME, LLVM_MAJOR, NIGHTLY, TESTED, WORKSPACE, cargo_home, linker};

/// The bpf target. All supported platforms are little-endian.
const TARGET: &str = "bpfel-unknown-none";

/// Crates that use unstable features, which a stable compiler accepts for listed crates only. All packages use one
/// list, so that they share artifacts.
const UNSTABLE_CRATES: &str = "aya_ebpf,ratelimit_ebpf,ratelimit_tests_ebpf";

/// Path of the compiler in distributions that package a `core` for bpf.
const PACKAGED_RUSTC: &str = "/usr/bin/rustc";

/// The list of installed packages, which every upgrade of one rewrites.
const PACKAGES: &str = "/var/lib/dpkg/status";

/// A compiler for `bpfel-unknown-none`.
#[derive(Debug, Clone)]
pub enum Toolchain {
    /// A `rustc` whose sysroot has `core` for bpf. The running cargo calls it.
    Packaged {
        /// The compiler.
        rustc: PathBuf,
        /// Its release.
        release: String,
        /// The release of its LLVM.
        llvm: String,
    },
    /// The pinned rustup toolchain, with rust-src. Cargo builds `core` from it.
    Nightly {
        /// Its compiler.
        rustc: PathBuf,
    },
}

impl Toolchain {
    /// Finds a compiler on this machine.
    #[must_use]
    pub fn find() -> Option<Self> {
        packaged().or_else(nightly)
    }

    /// Returns a cargo command (`build`, `clippy`) for the kernel side, without the environment of the outer cargo and
    /// rustup.
    #[must_use]
    pub fn cargo(&self, subcommand: &str, package: &str) -> Command {
        let mut command = match self {
            Self::Packaged { .. } => Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into())),
            Self::Nightly { .. } => {
                let mut command = Command::new("rustup");
                command.args(["run", NIGHTLY, "cargo"]);
                command
            }
        };
        for name in ["RUSTC", "RUSTC_WRAPPER", "RUSTC_WORKSPACE_WRAPPER", "RUSTFLAGS", "CLIPPY_ARGS", "CARGO_MAKEFLAGS"]
        {
            command.env_remove(name);
        }
        match self {
            Self::Packaged { rustc, .. } => {
                // Allows unstable features in these crates only.
                command.env("RUSTC", rustc).env("RUSTC_BOOTSTRAP", UNSTABLE_CRATES);
                if subcommand == "clippy" {
                    command.env("RUSTC_WORKSPACE_WRAPPER", rustc.with_file_name("clippy-driver"));
                    command.arg("check");
                } else {
                    command.arg(subcommand);
                }
            }
            Self::Nightly { .. } => {
                command.env_remove("RUSTUP_TOOLCHAIN").args([subcommand, "-Zbuild-std=core"]);
            }
        }
        let arch = env::var("CARGO_CFG_TARGET_ARCH").unwrap_or_else(|_| env::consts::ARCH.to_owned());
        let flags = [
            format!("--cfg=bpf_target_arch=\"{arch}\""),
            // v3 has 32-bit jumps and compare-and-exchange. Kernels support it since 5.12.
            "-Ctarget-cpu=v3".to_owned(),
            "-Ctarget-feature=+allows-misaligned-mem-access".to_owned(),
            format!("-Clinker={}", linker().display()),
            "-Clink-arg=--btf".to_owned(),
            // Unrolled compare-and-exchange loops make the program more than twice as large.
            "-Cllvm-args=-unroll-full-max-count=2".to_owned(),
            "-Clink-arg=--llvm-args=-unroll-full-max-count=2".to_owned(),
            // The object does not depend on where it is built.
            format!("--remap-path-prefix={}={WORKSPACE}", workspace().display()),
            format!("--remap-path-prefix={}={CARGO_HOME}", cargo_home().display()),
            // Cargo knows the compiler by its file, which stays the same when only its LLVM is upgraded.
            format!("--cfg=compiler=\"{}\"", self.version()),
        ];
        command.env("CARGO_ENCODED_RUSTFLAGS", flags.join("\x1f"));
        command.args(["--locked", "--profile", "kernel", "--target", TARGET, "--package", package]);
        command
    }

    /// Folder of the artifacts below cargo's target folder.
    #[must_use]
    pub fn artifacts(target_dir: &Path) -> PathBuf {
        target_dir.join(TARGET).join("kernel")
    }

    /// Whether the package manager of the system installed the compiler.
    #[must_use]
    pub fn is_packaged(&self) -> bool {
        matches!(self, Self::Packaged { .. })
    }

    /// Whether [`Self::cargo`] can run clippy.
    #[must_use]
    pub fn has_clippy(&self) -> bool {
        match self {
            Self::Packaged { rustc, .. } => rustc.with_file_name("clippy-driver").is_file(),
            Self::Nightly { .. } => succeeds(Command::new("rustup").args(["run", NIGHTLY, "cargo-clippy", "-V"])),
        }
    }

    /// Files whose change requires another look at the compiler. Packages keep old times of their files, so the list of
    /// packages is among them.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        let (Self::Packaged { rustc, .. } | Self::Nightly { rustc }) = self;
        let packages = Some(PathBuf::from(PACKAGES)).filter(|list| list.exists());
        [rustc.canonicalize().unwrap_or_else(|_| rustc.clone()), linker()].into_iter().chain(packages).collect()
    }

    /// Returns the release of the compiler and of its LLVM.
    fn version(&self) -> String {
        match self {
            Self::Packaged { release, llvm, .. } => format!("{release} with LLVM {llvm}"),
            Self::Nightly { .. } => NIGHTLY.to_owned(),
        }
    }

    /// Returns what to say if its objects were not tested on all supported kernels.
    #[must_use]
    pub fn untested(&self) -> Option<String> {
        let Self::Packaged { release, llvm, .. } = self else {
            return Some(format!("{self} builds objects that were not tested on all supported kernels"));
        };
        let is_tested = TESTED.iter().any(|tested| *tested == (release, llvm));
        let tested = TESTED.map(|(release, llvm)| format!("{release} with LLVM {llvm}")).join(", ");
        (!is_tested).then(|| {
            format!(
                "the kernel side is built by {self}, but only objects of {tested} were tested on all supported kernels"
            )
        })
    }
}

impl fmt::Display for Toolchain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Packaged { rustc, release, llvm } => {
                write!(f, "{} {release} (LLVM {llvm}) with its packaged core", rustc.display())
            }
            Self::Nightly { .. } => write!(f, "rustup's {NIGHTLY} with rust-src"),
        }
    }
}

/// The folder of the workspace.
fn workspace() -> &'static Path {
    let own_folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    own_folder.parent().unwrap_or(own_folder)
}

fn packaged() -> Option<Toolchain> {
    let rustc = PathBuf::from(PACKAGED_RUSTC);
    let mut ask = Command::new(&rustc);
    let libraries = output(ask.args(["--print", "target-libdir", "--target", TARGET]))?;
    let has_core = std::fs::read_dir(libraries.trim())
        .ok()?
        .flatten()
        .any(|file| file.file_name().to_string_lossy().starts_with("libcore-"));
    let version = output(Command::new(&rustc).arg("-vV"))?;
    let [release, llvm] = ["release: ", "LLVM version: "].map(|field| value(&version, field));
    let (release, llvm) = (release?, llvm?);
    (has_core && llvm_fits(&llvm)).then_some(Toolchain::Packaged { rustc, release, llvm })
}

fn nightly() -> Option<Toolchain> {
    let rustc = || {
        let mut command = Command::new("rustup");
        command.args(["run", NIGHTLY, "rustc"]);
        command
    };
    let sysroot = output(rustc().args(["--print", "sysroot"]))?;
    let sysroot = Path::new(sysroot.trim());
    let llvm = value(&output(rustc().arg("-vV"))?, "LLVM version: ")?;
    let fits = sysroot.join("lib/rustlib/src/rust/library/core").is_dir() && llvm_fits(&llvm);
    fits.then(|| Toolchain::Nightly { rustc: sysroot.join("bin/rustc") })
}

/// Whether `bpf-linker` can read the bitcode of a compiler: its LLVM must not be newer than that of the linker.
fn llvm_fits(llvm: &str) -> bool {
    llvm.split('.').next().and_then(|major| major.parse::<u32>().ok()).is_some_and(|major| major <= LLVM_MAJOR)
}

/// Returns the value of a field in the output of `rustc -vV`.
fn value(version: &str, field: &str) -> Option<String> {
    version.lines().find_map(|line| line.strip_prefix(field)).map(str::to_owned)
}

/// Finds the prefix of an installed LLVM with headers, against which `bpf-linker` can be built.
#[must_use]
pub fn llvm_prefix() -> Option<PathBuf> {
    let versioned = format!("llvm-config-{LLVM_MAJOR}");
    let packaged = format!("/usr/lib/llvm-{LLVM_MAJOR}/bin/llvm-config");
    [packaged.as_str(), versioned.as_str(), "llvm-config"].into_iter().find_map(|program| {
        let version = output(Command::new(program).arg("--version"))?;
        let fits = version.trim().split('.').next() == Some(&LLVM_MAJOR.to_string());
        let include = output(Command::new(program).arg("--includedir"))?;
        let headers = Path::new(include.trim()).join("llvm-c/Core.h").is_file();
        let prefix = output(Command::new(program).arg("--prefix"))?;
        (fits && headers).then(|| PathBuf::from(prefix.trim()))
    })
}

fn output(command: &mut Command) -> Option<String> {
    let output = command.env_remove("RUSTUP_TOOLCHAIN").output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

fn succeeds(command: &mut Command) -> bool {
    output(command).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_compilers_whose_objects_were_tested_build_without_a_warning() {
        let packaged = |release: &str, llvm: &str| Toolchain::Packaged {
            rustc: PACKAGED_RUSTC.into(),
            release: release.to_owned(),
            llvm: llvm.to_owned(),
        };
        for (release, llvm) in TESTED {
            assert_eq!(packaged(release, llvm).untested(), None);
            for other in [packaged("1.99.0", llvm), packaged(release, "21.1.0")] {
                let warning = other.untested().unwrap();
                assert!(warning.contains(&format!("only objects of {release} with LLVM {llvm}")), "{warning}");
            }
        }
        assert!(Toolchain::Nightly { rustc: PACKAGED_RUSTC.into() }.untested().is_some());
    }

    #[test]
    fn an_upgrade_of_llvm_alone_builds_again() {
        let flags = |llvm: &str| {
            let rustc = PathBuf::from(PACKAGED_RUSTC);
            let toolchain = Toolchain::Packaged { rustc, release: "1.96.0".to_owned(), llvm: llvm.to_owned() };
            let command = toolchain.cargo("build", "ratelimit-ebpf");
            let flags = command.get_envs().find(|(name, _)| *name == "CARGO_ENCODED_RUSTFLAGS");
            flags.and_then(|(_, value)| value).unwrap().to_owned()
        };
        assert_ne!(flags("22.1.8"), flags("22.1.9"));
        assert_eq!(flags("22.1.8"), flags("22.1.8"));
    }

    #[test]
    fn a_compiler_with_a_newer_llvm_than_the_linker_does_not_fit() {
        assert!(llvm_fits("22.1.8") && llvm_fits("21.0"));
        assert!(!llvm_fits("23.0.0") && !llvm_fits("next"));
    }
}
